// Package demo shows in a few seconds what Einmal is for: an order API, its payment partner and a network that loses answers, as real processes on real
// connections, with everything counted at the end.
//
// The program starts itself twice more, as the shop (RunShop) and as the partner (RunPartner). This process is the client, the network between client
// and shop, and the narrator.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
	"github.com/einmal-dev/einmal/fault"
	"github.com/einmal-dev/einmal/sqlitestore"
)

// Options are what the demo can be told.
type Options struct {
	Stay    bool   // leave it running afterwards, until ctx ends
	Keep    bool   // keep its folder
	Command string // how a person calls this program
}

// ErrWrong says that something was counted that should not have been.
var ErrWrong = errors.New("the demo is not as it should be")

var errInterrupted = errors.New("interrupted")

const storeFile = "orders.db"

type demo struct {
	exe, dir string
	say      *narrator
	seen     *sightings
	proxy    *fault.Proxy
	shop     *process
	partner  *partnerControl
	operator *einmal.Operator
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// Run plays every scene and counts. An error that wraps ErrWrong says that a count or an answer was wrong; any other, that the demo could not be played.
func Run(ctx context.Context, out term.Out, o Options) (err error) {
	began := time.Now()
	d := &demo{say: newNarrator(out), seen: newSightings()}
	if d.exe, err = os.Executable(); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "einmal-demo-"); err != nil {
		return err
	}
	defer func() { err = d.tidy(ctx, o.Keep, err) }()

	stop, err := d.setUp(ctx)
	defer stop()
	if err != nil {
		return err
	}
	d.introduce()
	var played []*scene
	for i, sc := range scripts {
		s, err := d.play(ctx, i+1, sc)
		if s == nil || ctx.Err() != nil {
			return err
		}
		played = append(played, s)
		if err != nil {
			break
		}
	}
	if err := d.summary(ctx, played, time.Since(began)); err != nil {
		return err
	}
	if o.Stay {
		return d.stay(ctx, o.Command)
	}
	d.whatNext(o.Command)
	return nil
}

// setUp makes the store and starts everybody. stop ends them, in any case.
func (d *demo) setUp(ctx context.Context) (stop func(), err error) {
	var undo []func()
	stop = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sceneTimeout, fmt.Errorf("gave up after %v", sceneTimeout))
	defer cancel()
	store, err := sqlitestore.Create(ctx, d.path(storeFile), sqlitestore.Options{})
	if err != nil {
		return stop, err
	}
	undo = append(undo, func() { _ = store.Close() })
	if d.operator, err = einmal.NewOperator(ctx, store); err != nil {
		return stop, err
	}
	partner, err := d.start(ctx, "partner")
	if err != nil {
		return stop, err
	}
	undo = append(undo, partner.stop)
	d.partner = &partnerControl{base: "http://" + partner.addr, http: &http.Client{}}
	d.proxy = new(fault.Proxy)
	if err := d.proxy.Start(); err != nil {
		return stop, err
	}
	undo = append(undo, d.proxy.Close, func() {
		if d.shop != nil {
			d.shop.stop()
		}
	})
	return stop, d.startShop(ctx)
}

// startShop starts the server, or another one after it died, and lets the network find it.
func (d *demo) startShop(ctx context.Context) (err error) {
	if d.shop, err = d.start(ctx, "shop", "--store", d.path(storeFile), "--partner", d.partner.base); err != nil {
		return err
	}
	d.proxy.Retarget(d.shop.addr)
	return os.WriteFile(d.path("shop.pid"), []byte(strconv.Itoa(d.shop.cmd.Process.Pid)+"\n"), 0o600)
}

// tidy removes the folder, unless it may be needed.
func (d *demo) tidy(ctx context.Context, keep bool, err error) error {
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if keep || err != nil && err != errInterrupted {
		d.say.Printf("\nStore and logs are kept in %s\n", d.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (d *demo) introduce() {
	d.say.Printf("%s\n\n", d.say.Bold("Did my write happen? An order API on a bad day, with Einmal in front of it."))
	d.say.Printf("%s%s  sends POST /orders with an Idempotency-Key, and again if in doubt\n", margin, d.say.Bold(term.Pad("client", 8)))
	d.say.Printf("%s%s  takes orders and charges the partner; its store is one SQLite file\n", margin, d.say.Bold(term.Pad("server", 8)))
	d.say.Printf("%s%s  takes payments; what is paid stays paid\n", margin, d.say.Bold(term.Pad("partner", 8)))
}

// summary shows what was counted, and checks it once more at both ends.
func (d *demo) summary(ctx context.Context, played []*scene, took time.Duration) error {
	t := term.Table{Columns: []term.Column{{}, {Name: "SCENE"}, {Name: "OPERATIONS", Right: true}, {Name: "REQUESTS", Right: true}, {Name: "PAYMENTS", Right: true}, {Name: "EXPECTED", Right: true}, {}}}
	var sum, expected counts
	requests, wrong := 0, 0
	for i, s := range played {
		mark := "✓"
		if !s.right() || s.wrong > 0 {
			mark = "✗"
			wrong++
		}
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(i + 1), s.short, strconv.Itoa(s.counted.operations), strconv.Itoa(s.requests),
			strconv.Itoa(s.counted.payments), strconv.Itoa(s.script.payments), mark,
		})
		requests += s.requests
		expected.operations += s.script.operations
		expected.payments += s.script.payments
	}
	sum, err := d.count(ctx)
	if err != nil {
		return err
	}
	mark := "✓"
	if sum != expected {
		mark = "✗"
		wrong++
	}
	t.Rows = append(t.Rows, []string{"", "all", strconv.Itoa(sum.operations), strconv.Itoa(requests), strconv.Itoa(sum.payments), strconv.Itoa(expected.payments), mark})
	t.Style = func(row, column int, s string) string {
		switch {
		case column == 6 && s == "✓":
			return d.say.Green(s)
		case column == 6:
			return d.say.Red(s)
		case row == len(t.Rows)-1:
			return d.say.Bold(s)
		}
		return s
	}
	d.say.Printf("\n")
	t.Write(d.say.Out, "")
	if wrong > 0 {
		d.say.Printf("\n%s\n", d.say.Red("Something is wrong: see ✗ above."))
		return fmt.Errorf("%w: %d requests, %d operations (expected %d), %d payments (expected %d)",
			ErrWrong, requests, sum.operations, expected.operations, sum.payments, expected.payments)
	}
	d.say.Printf("\n%s %d requests for %d operations made %d payments, as it should be (%.1fs).\n", d.say.Green("✓"),
		requests, sum.operations, sum.payments, took.Seconds())
	return nil
}
