package actors

import "context"

func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
