package webhooks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckURL: URLs that a webhook may have.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{ // strict, with http and private addresses
		"https://hooks.example.com/x": {true, true},
		"https://8.8.8.8/":            {true, true},
		"http://hooks.example.com/":   {false, true},
		"https://127.0.0.1/":          {false, true},
		"https://[::1]:8443/":         {false, true},
		"https://[::ffff:10.0.0.1]/":  {false, true},
		"https://169.254.169.254/":    {false, false},
		"https://[fe80::1%25eth0]/":   {false, false},
		"ftp://hooks.example.com/":    {false, false},
		"file:///etc/passwd":          {false, false},
		"https://%zz":                 {false, false},
	} {
		for i, d := range []*Deliverer{New(Config{}), New(Config{AllowHTTP: true, AllowPrivate: true})} {
			require.Equal(t, want[i], d.CheckURL(text) == nil, "%s %d", text, i)
		}
	}
}
