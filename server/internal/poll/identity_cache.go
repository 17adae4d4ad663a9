package poll

import (
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// maxIdentityBytes is the limit of cached uncompressed answers.
const maxIdentityBytes = 32 << 20

// identityCache keeps the uncompressed bodies of answers for clients that do not accept gzip: decompression costs several
// times as much as sending. It has two generations; when the young one is full, the old one, with the bodies that were not
// used since, is dropped.
type identityCache struct {
	mu         sync.Mutex
	young, old map[*byte][]byte // by the first byte of the compressed form
	size       int              // bytes in young
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
