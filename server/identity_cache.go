package server

import (
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// maxPlainBytes is how much of the answers that were asked for without compression is kept as it is sent.
const maxIdentityBytes = 32 << 20

// plainBodies keeps the bodies of answers for clients that do not accept gzip: taking one out of its compressed form costs
// several times what sending it does. The two halves are generations; when the young one is full, the old one, which holds
// what was not asked for since, is forgotten.
type identityCache struct {
	mu         sync.Mutex
	young, old map[*byte][]byte // by the compressed form, of which nothing else need be kept
	size       int              // of the young ones, in bytes
}

func (i *identityCache) body(a *fleet.Answer) ([]byte, error) {
	key := &a.Gzip[0]
	if body := i.get(key); body != nil {
		return body, nil
	}
	body, err := a.Body()
	if err == nil {
		i.put(key, body)
	}
	return body, err
}

func (i *identityCache) get(key *byte) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	if body, ok := i.young[key]; ok {
		return body
	}
	body, ok := i.old[key]
	if ok {
		delete(i.old, key)
		i.add(key, body)
	}
	return body
}

func (i *identityCache) put(key *byte, body []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.young[key]; !ok {
		i.add(key, body)
	}
}

func (i *identityCache) add(key *byte, body []byte) {
	if i.size += len(body); i.size > maxIdentityBytes/2 || i.young == nil {
		i.old, i.young, i.size = i.young, map[*byte][]byte{}, len(body)
	}
	i.young[key] = body
}
