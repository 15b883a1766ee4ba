package einmal

import "slices"

// endTable maps an HTTP status to how the attempt that answered with it ended.
type endTable struct {
	ends  [600]End
	bound [600]bool
}

// newEndTable builds the table of a policy that has its defaults. Later lines win:
//
//	2xx, 3xx                                                            success
//	400, 402, 404, 405, 406, 409, 410–417, 422, 428, 451                refused
//	409, keyed ("in progress" and "key conflict" look alike)            open
//	the policy's RefusesBeforeEffect: 401, 403, 421, 425, 429, 431      no effect
//	the policy's BoundToKey                                             refused, for every attempt
//	the policy's Statuses                                               as it says
//	everything else                                                     open
func newEndTable(p Policy) endTable {
	var t endTable
	for status := range t.ends {
		switch {
		case status >= 200 && status < 400:
			t.ends[status] = EndSuccess
		case slices.Contains(refusedStatuses, status):
			t.ends[status] = EndRefused
		default:
			t.ends[status] = EndOpen
		}
	}
	if p.Effect.Class() == ClassKeyed {
		t.ends[409] = EndOpen
	}
	for _, status := range p.Rules.RefusesBeforeEffect {
		t.ends[status] = EndNoEffect
	}
	for _, status := range p.Rules.BoundToKey {
		t.ends[status], t.bound[status] = EndRefused, true
	}
	for status, end := range p.Rules.Statuses {
		t.ends[status] = end
		t.bound[status] = t.bound[status] && end == EndRefused
	}
	return t
}

var refusedStatuses = []int{400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 428, 451}

func (t *endTable) of(status int) (end End, bound bool) {
	if status < 200 || status >= len(t.ends) {
		return EndOpen, false
	}
	return t.ends[status], t.bound[status]
}
