package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
)

const (
	pushBurst    = 600         // new versions of a component that this process accepts at once
	pushInterval = time.Second // for each further one
)

// pushLimits limit the new versions that are pushed for each component. What is known already does not count.
type pushLimits struct {
	mu   sync.Mutex
	used map[string]pushLimit
}

// pushLimit is the use of a limit at a time; it decreases by one each pushInterval.
type pushLimit struct {
	used float64
	at   time.Time
}

// take counts a new version of a component, or returns 429.
func (l *pushLimits) take(component string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used == nil {
		l.used = map[string]pushLimit{}
	}
	used := l.used[component].after(now)
	if used.used > pushBurst-1 {
		wait := math.Ceil((used.used - pushBurst + 1) * pushInterval.Seconds())
		return &httperror.Error{
			Status: http.StatusTooManyRequests, Code: "too_many_requests",
			Detail:  fmt.Sprintf("too many new versions of platform component %q were pushed: the version was not recorded; push it again later", component),
			Headers: map[string]string{"Retry-After": strconv.Itoa(int(wait))},
		}
	}
	used.used++
	l.used[component] = used
	return nil
}

func (u pushLimit) after(now time.Time) pushLimit {
	passed := max(0, now.Sub(u.at).Seconds()/pushInterval.Seconds())
	return pushLimit{max(0, u.used-passed), now}
}

// forget drops the limits that are unused.
func (l *pushLimits) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for component, used := range l.used {
		if used.after(now).used == 0 {
			delete(l.used, component)
		}
	}
}
