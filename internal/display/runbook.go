package display

import "strings"

// runbooks is the page that has an entry for each alert and for each reason of a gap.
const runbooks = "https://github.com/informd/informd/blob/main/docs/runbooks.md#"

// AlertRunbook returns the address of what to do about an alert.
func AlertRunbook(alert string) string { return runbooks + strings.ToLower(alert) }

// GapRunbook returns the address of what to do about gaps of a reason. Without a reason it is what
// all these addresses begin with.
func GapRunbook(reason string) string { return runbooks + "gap-" + reason }
