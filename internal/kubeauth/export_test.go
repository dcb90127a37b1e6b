package kubeauth

import "time"

// SetInterval replaces the time between two reads.
func (c *Credentials) SetInterval(interval time.Duration) { c.interval = interval }
