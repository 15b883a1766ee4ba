package crashpoint_test

import (
	"bufio"
	"encoding/json"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/einmal-dev/einmal/fault"
)

// TestTwoProcessesOnOneFileExecuteOnce has 64 callers in two processes send the same operation at once, while the partner holds the first one's answer.
func TestTwoProcessesOnOneFileExecuteOnce(t *testing.T) {
	t.Parallel()
	const callers = 32
	binary := victim(t)
	for _, class := range []string{"opaque", "keyed"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			partner := &fault.Partner{Opaque: true} // a second call would be a second effect
			partner.Always(fault.HangAfter(release))
			server := httptest.NewServer(partner)
			t.Cleanup(server.Close)
			t.Cleanup(partner.Close)
			path := filepath.Join(t.TempDir(), "shared.db")
			type line struct {
				Answer, Problem string
				Ran             int
				Waits           bool
				err             error
			}
			lines := make(chan line)
			for range 2 {
				cmd := exec.Command(binary, "-store", path, "-class", class, "-partner", server.URL, "-key", "k", "-callers", "32", "-lease", "10s")
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				go func() {
					for scan := bufio.NewScanner(stdout); scan.Scan(); {
						var l line
						l.err = json.Unmarshal(scan.Bytes(), &l)
						lines <- l
					}
					lines <- line{err: cmd.Wait(), Problem: "ended"}
				}()
			}
			waiting, answered, ran, ended := 0, map[string]int{}, 0, 0
			for ended < 2 {
				l := <-lines
				switch {
				case l.err != nil:
					t.Fatalf("%+v", l)
				case l.Problem == "ended":
					ended++
				case l.Waits:
					if waiting++; waiting == 2*callers-1 {
						close(release)
					}
				case l.Answer == "":
					t.Errorf("%+v", l)
				default:
					answered[l.Answer]++
					ran += l.Ran
				}
			}
			if len(answered) != 1 || ran != 1 || partner.Total() != 1 || waiting != 2*callers-1 {
				t.Errorf("answers %v, ran %d, effects %d, waited %d", answered, ran, partner.Total(), waiting)
			}
		})
	}
}
