package budget

import (
	"fmt"
	"time"
)

// What the constructors refuse. An error names the argument and its value.

func checkWindow(max int, window, delay time.Duration) error {
	if err := checkMax(max); err != nil {
		return err
	}
	if err := checkPositive("restart window", window); err != nil {
		return err
	}
	return checkDelay(delay)
}

func checkMax(max int) error {
	if max < 1 {
		return fmt.Errorf("budget: max restarts %d: want at least 1", max)
	}
	return nil
}

func checkPositive(what string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("budget: %s %v: want a positive duration", what, d)
	}
	return nil
}

func checkDelay(delay time.Duration) error {
	if delay < 0 {
		return fmt.Errorf("budget: restart delay %v: want 0 or more", delay)
	}
	return nil
}
