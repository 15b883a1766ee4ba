package model

// Bug is a rule broken on purpose, so that the checker has been seen to find it.
type Bug uint8

const (
	NoBug                 Bug = iota
	RerunOpaque               // an unclear opaque operation runs again
	RerunAfterWindow          // a keyed one runs again whatever the time
	LaterRefusalCompletes     // a refusal settles the operation although an earlier attempt is open
	NoFence                   // an earlier attempt's word is taken for the running one's
	TokenReset                // the next attempt is number 1 again
	RenewalRevives            // a renewal holds although the lease was lost
	LapseIsNoEffect           // a lost lease is taken for a failure
	UnclearExpires            // purging takes unclear records
	PurgeRunning              // purging takes running records
	ExpiredRuns               // an expired key runs again
	VersionNotChecked         // a person's statement is taken although the record has changed
	ResolveRunning            // a running operation can be resolved
	OpenReplaces              // "open" replaces a certificate
	AnswerBeforeCommit        // the caller gets the attempt's answer before it is recorded
	CompletedChanges          // a late success replaces a recorded answer
	BoundAfterWindow          // a refusal bound to the key speaks for other attempts after the partner's window
	BoundForLater             // and for later attempts until then
	NewPartnerKey             // every attempt sends a partner key of its own
	OpenIsSuccess             // an attempt that does not know is taken for a success
	WrongEnd                  // a late word replaces the newest attempt's end
	SuccessOvertaken          // a success of an earlier attempt is ignored while another runs
	NoAlarm                   // a contradiction is only noted
	AlarmOnRepeat             // an attempt's own success, offered again, is taken for a second effect
)

var bugNames = [...]string{
	"none", "rerun-opaque", "rerun-after-window", "later-refusal-completes", "no-fence", "token-reset", "renewal-revives", "lapse-is-no-effect",
	"unclear-expires", "purge-running", "expired-runs", "version-not-checked", "resolve-running", "open-replaces", "answer-before-commit",
	"completed-changes", "bound-after-window", "bound-for-later", "new-partner-key", "open-is-success", "wrong-end", "success-overtaken", "no-alarm",
	"alarm-on-repeat",
}

func (b Bug) String() string { return bugNames[b] }

// AllBugs are all of them, without NoBug.
func AllBugs() []Bug {
	all := make([]Bug, len(bugNames)-1)
	for i := range all {
		all[i] = Bug(i + 1)
	}
	return all
}
