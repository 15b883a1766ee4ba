package memstore

import (
	"bytes"
	"slices"
	"time"

	"github.com/einmal-dev/einmal"
)

// nextSeq is the sequence of one more write.
func (s *store) nextSeq() int64 {
	s.position.Seq++
	return s.position.Seq
}

// read returns a record as it stands now, sharing no memory with the store.
func (s *store) read(r *row, now time.Time) einmal.Record {
	rec := r.Record
	rec.Ends, rec.Result = copyEnds(r.Ends), copyResult(r.Result)
	rec.Now, rec.At = now, s.position
	return rec
}

func copyResult(r *einmal.Result) *einmal.Result {
	if r == nil {
		return nil
	}
	return &einmal.Result{Status: r.Status, Header: slices.Clone(r.Header), Body: bytes.Clone(r.Body), Kept: r.Kept}
}

func copyEnds(ends []einmal.AttemptEnd) []einmal.AttemptEnd {
	ends = slices.Clone(ends)
	for i := range ends {
		ends[i].Result = copyResult(ends[i].Result)
	}
	return ends
}

// withoutBodies strips a copy for a list.
func withoutBodies(rec einmal.Record) einmal.Record {
	if rec.Result != nil {
		rec.Result.Body = nil
	}
	for _, e := range rec.Ends {
		if e.Result != nil {
			e.Result.Body = nil
		}
	}
	return rec
}
