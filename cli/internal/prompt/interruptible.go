package prompt

import (
	"context"
	"io"
)

// Interruptible returns a reader of r whose reads end with the error of ctx when ctx ends, as those of a terminal do not. The text of
// a read that was interrupted is lost.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	if r == nil {
		return nil
	}
	return interruptible{ctx.Done(), ctx.Err, r}
}

type interruptible struct {
	done <-chan struct{}
	err  func() error
	from io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	type read struct {
		data []byte
		err  error
	}
	reads := make(chan read, 1)
	go func() {
		buf := make([]byte, len(p))
		n, err := r.from.Read(buf)
		reads <- read{buf[:n], err}
	}()
	select {
	case <-r.done:
		return 0, r.err()
	case got := <-reads:
		return copy(p, got.data), got.err
	}
}
