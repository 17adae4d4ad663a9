package server

import (
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// maxPlainBytes is how much of the answers that were asked for without compression is kept as it is sent.
const maxPlainBytes = 32 << 20

// plainBodies keeps the bodies of answers for clients that do not accept gzip: taking one out of its compressed form costs
// several times what sending it does. The two halves are generations; when the young one is full, the old one, which holds
// what was not asked for since, is forgotten.
type plainBodies struct {
	mu         sync.Mutex
	young, old map[*byte][]byte // by the compressed form, of which nothing else need be kept
	size       int              // of the young ones, in bytes
}

func (p *plainBodies) of(a *fleet.Answer) ([]byte, error) {
	key := &a.Gzip[0]
	if body := p.find(key); body != nil {
		return body, nil
	}
	body, err := a.Body()
	if err == nil {
		p.keep(key, body)
	}
	return body, err
}

func (p *plainBodies) find(key *byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if body, ok := p.young[key]; ok {
		return body
	}
	body, ok := p.old[key]
	if ok {
		delete(p.old, key)
		p.add(key, body)
	}
	return body
}

func (p *plainBodies) keep(key *byte, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.young[key]; !ok {
		p.add(key, body)
	}
}

func (p *plainBodies) add(key *byte, body []byte) {
	if p.size += len(body); p.size > maxPlainBytes/2 || p.young == nil {
		p.old, p.young, p.size = p.young, map[*byte][]byte{}, len(body)
	}
	p.young[key] = body
}
