package storetest

import (
	"context"
	"errors"
	"strings"
)

// CheckRule is Check with only those cases whose rule contains the words.
func CheckRule(ctx context.Context, m Maker, words string) error {
	p := &pair{maker: m}
	defer p.close()
	var broken []error
	for _, c := range allCases() {
		if strings.Contains(c.rule, words) {
			broken = append(broken, c.run(ctx, p))
		}
	}
	return errors.Join(broken...)
}
