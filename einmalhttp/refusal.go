package einmalhttp

import (
	"encoding/json"
	"errors"

	"github.com/einmal-dev/einmal"
)

// refusalType marks the stored answer of a Final error that was not answered inside Serve's function: the framework answers it, each time anew.
const refusalType = "application/vnd.einmal.refusal+json"

func refusalOf(err error) *einmal.Refusal {
	var r *einmal.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &einmal.Refusal{Message: err.Error()}
}

func refusalResult(err error) *einmal.Result {
	body, jsonErr := json.Marshal(refusalOf(err))
	if jsonErr != nil { // a Detail that is no JSON
		body, _ = json.Marshal(&einmal.Refusal{Code: refusalOf(err).Code, Message: refusalOf(err).Message})
	}
	return &einmal.Result{Status: 422, Header: []einmal.Field{{Name: "Content-Type", Value: refusalType}}, Body: body}
}

func storedRefusal(res *einmal.Result) *einmal.Refusal {
	if res == nil || res.Kept != einmal.KeptWhole || len(res.Header) != 1 || res.Header[0].Value != refusalType {
		return nil
	}
	r := new(einmal.Refusal)
	if json.Unmarshal(res.Body, r) != nil {
		return nil
	}
	return r
}
