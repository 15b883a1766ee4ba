package einmalhttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

// Document is the contract of this server's operations, as they are defined now.
func (s *Server) Document() contract.Document {
	ops := s.engine.Ops()
	published := make([]contract.Operation, len(ops))
	for i, op := range ops {
		published[i] = publish(op)
	}
	slices.SortFunc(published, func(a, b contract.Operation) int { return strings.Compare(a.Name, b.Name) })
	doc := contract.NewDocument(s.typeBase, published...)
	doc.MaxWait = contract.Seconds(s.cfg.MaxWait)
	return doc
}

// publish is what clients may rely on of a policy.
func publish(op *einmal.Op) contract.Operation {
	p := op.Policy()
	o := contract.Operation{
		Name: p.Name, Effect: p.Effect.Class().String(), Key: contract.KeyRequired, KeyAge: contract.KeyAgeNone,
		Window: contract.Seconds(p.Window), KeepResult: contract.Seconds(p.Rules.KeepResult), Tombstone: contract.Seconds(p.Rules.Tombstone),
		Deadline: contract.Seconds(p.Deadline), Lease: contract.Seconds(p.Lease), InFlight: contract.Seconds(p.Deadline + p.Lease),
		MaxBody: p.Rules.MaxBody, MaxResult: p.Rules.MaxResult, Parameters: slices.Clone(p.Rules.Headers),
		Statuses: contract.StatusesOf(p.Effect.Class().String(), func(status int) contract.End {
			end, _ := op.End(status)
			return contract.End(end.String())
		}, p.Rules.RefusesBeforeEffect, p.Rules.BoundToKey),
	}
	if o.Parameters == nil {
		o.Parameters = []string{}
	}
	if p.KeyOptional {
		o.Key = contract.KeyOptional
	}
	if p.KeyAge == einmal.KeyAgeUUIDv7 {
		o.KeyAge = contract.KeyAgeUUIDv7
	}
	if p.Effect.Class() == einmal.ClassKeyed {
		o.PartnerWindow, o.MaxAttempts = contract.Seconds(p.Effect.PartnerWindow()), p.Rules.MaxAttempts
	}
	return o
}

// serveContract gives the page to a browser and the document to everybody else.
func (s *Server) serveContract(w http.ResponseWriter, r *http.Request) {
	page, document, err := s.contract()
	if err != nil {
		s.log.ErrorContext(r.Context(), "einmalhttp: cannot write the contract", "error", err)
		writePlain(w, http.StatusInternalServerError, "")
		return
	}
	h := w.Header()
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	body := document
	if wantsPage(r) {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", contract.PageCSP)
		h.Set("Referrer-Policy", "no-referrer")
		body = page
	} else {
		h.Set("Content-Type", "application/json")
	}
	writeTagged(w, r, body, body)
}

// wantsPage reports whether the client names HTML before JSON, or asks for the page by ?format=html. Other preferences get the document.
func wantsPage(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "html":
		return true
	case "json":
		return false
	}
	for accept := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, _, _ := strings.Cut(accept, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/html", "application/xhtml+xml":
			return true
		case "application/json":
			return false
		}
	}
	return false
}

// contract renders page and document once for each set of operations.
func (s *Server) contract() (page, document []byte, err error) {
	s.pageMu.Lock()
	defer s.pageMu.Unlock()
	if n := len(s.engine.Ops()); s.page == nil || s.pageOps != n {
		doc := s.Document()
		if s.document, err = doc.JSON(); err != nil {
			return nil, nil, err
		}
		if s.page, err = doc.Page(s.base + "contract?format=json"); err != nil {
			return nil, nil, err
		}
		s.pageOps = n
	}
	return s.page, s.document, nil
}
