package testrig

import (
	"flag"
	"testing"
)

// RunIOBound runs the tests of a package that mostly wait for other processes: up to eight at once, however few processors
// there are, unless -parallel is set.
func RunIOBound(m *testing.M) (code int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	return m.Run()
}
