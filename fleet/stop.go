package fleet

// Stop is asked within everything that may take long: whoever the work was for may be gone. An error ends the work with
// that error. Nil never does.
type Stop func() error

func (s Stop) now() error {
	if s == nil {
		return nil
	}
	return s()
}
