package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManualProgram runs the program in docs/client.md as a user would.
func TestManualProgram(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(manual), "```go\n")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/client.md holds no program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop := demoServer()
	defer stop()
	cmd := exec.Command("go", "run", file)
	cmd.Env = append(os.Environ(), "FLUX_API_URL="+url, "FLUX_API_WRITE_TOKEN=write")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "3\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
