package attack

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Large changes over a slow link.
var slowLinks = []Attack{
	{"slow-line", "one commit over 1,000 clusters of 50 KB has to reach a replica behind 10 Mbit/s, and another one starts there", (*env).slowLink},
	{"growth", "one label of a cluster of 50 KB is changed again and again", (*env).growth},
}

// tenMegabitsPerSecond is in bytes per second.
const tenMegabitsPerSecond = 10_000_000 / 8

// incompressiblePatches returns patches of the given size in bytes that do not compress.
func incompressiblePatches(size int) object {
	random := rand.New(rand.NewPCG(1, 2)) // the same in every run
	patches := object{}
	for n := range size / 1000 {
		text := make([]byte, 980)
		for i := range text {
			text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"[random.IntN(64)]
		}
		patches[fmt.Sprintf("value%03d", n)] = string(text)
	}
	return patches
}

func (a *env) slowLink() {
	pg, crud, reads := a.replicas(fleetOf{clusters: 1000, namespaces: 1, patches: incompressiblePatches(50_000)}, nil, "read-1", "read-2")
	for _, p := range reads {
		pg.Proxies[p.Name].Set(testrig.Trouble{Rate: tenMegabitsPerSecond})
	}
	labels := object{"operations": []object{{"op": "set_labels", "all": true, "labels": object{"v": "new"}}}}
	newest := a.mustSend(crud, http.MethodPost, "/batch", labels).Revision
	began := time.Now()
	var wg sync.WaitGroup
	arrives := func(p *rig.Process, what string) {
		arrived := a.eventually(deliveryTimeout, func() bool {
			got := a.poll(p, dns(0))
			return got.Status == http.StatusOK && got.Revision >= newest
		})
		a.count(!arrived, what)
		a.notef("%s: arrived: %t, after %.0f s", p.Name, arrived, time.Since(began).Seconds())
	}
	reads[1].Kill()
	wg.Go(func() { arrives(reads[0], "commits of 50 MB never reached the replica") })
	wg.Go(func() {
		a.restart(reads[1])
		arrives(reads[1], "replicas never loaded a fleet of 50 MB")
	})
	wg.Wait()
}

// deliveryTimeout allows for the 40 s that 50 MB of documents take on this link, and as much again if the log also has
// the previous versions.
const deliveryTimeout = 150 * time.Second

func (a *env) growth() {
	const changes, allowed = 100, 6 << 10
	db := a.sqlite()
	c := rig.Config{Name: "crud-1", Database: db.URL(""), Seed: a.seed(fleetOf{clusters: 1, namespaces: 1, patches: incompressiblePatches(50_000)})}
	size := func() int64 {
		p := a.process(c)
		a.restart(p)
		a.waitForPolls(p)
		p.End() // checkpoints the write-ahead log into the file
		info, err := os.Stat(db.Path)
		if err != nil {
			a.fail("%w", err)
		}
		return info.Size()
	}
	before := size()
	p := a.start(c)
	a.waitForPolls(p)
	for n := range changes {
		a.setLabel(p, n)
	}
	p.End()
	each := (size() - before) / changes
	a.notef("each change of a label grew the store by %d bytes", each)
	a.count(each > allowed, "a change of one label grew the store by more than 6 KB")
}
