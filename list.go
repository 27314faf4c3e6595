package supervised

// A list holds calls in the order in which they were pushed. A call is in one list at most. The zero value is
// empty.
type list struct {
	first, last *call
	len         int
}

func (l *list) push(c *call) {
	c.in, c.prev = l, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.len++
}

func (l *list) remove(c *call) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
	l.len--
}

// all goes through the calls, oldest first. The one that it is at may be removed.
func (l *list) all() func(yield func(*call) bool) {
	return func(yield func(*call) bool) {
		for c := l.first; c != nil; {
			next := c.next
			if !yield(c) {
				return
			}
			c = next
		}
	}
}
