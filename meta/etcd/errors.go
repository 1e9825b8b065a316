package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-io/tidemark/meta"
)

// readFailed classifies the error of a read: nothing happened, and it may be retried unless etcd will never answer it.
func (b *Backend) readFailed(ctx context.Context, err error) error {
	return b.failed(ctx, err, meta.ErrUnavailable)
}

// writeFailed classifies the error of a write: without a reply, it may have been done.
func (b *Backend) writeFailed(ctx context.Context, err error) error {
	return b.failed(ctx, err, meta.ErrOutcomeUnknown)
}

func (b *Backend) failed(ctx context.Context, err, otherwise error) error {
	switch {
	case err == nil:
		return nil
	case b.life.Err() != nil:
		return meta.ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %s: %w", otherwise, ctx.Err(), b, err)
	case errors.Is(err, rpctypes.ErrNoSpace), errors.Is(err, rpctypes.ErrGRPCNoSpace):
		return fmt.Errorf("%w: %s: %w: raise etcd's quota or compact and defragment it, then disarm the alarm",
			meta.ErrNoSpace, b, err)
	case isFinal(err):
		return fmt.Errorf("meta: %s: %w", b, err)
	}
	return fmt.Errorf("%w: %s: %w", otherwise, b, err)
}

// isFinal reports whether a retry would get the same answer: a matter of permissions, or of the request itself.
func isFinal(err error) bool {
	for _, e := range []error{
		rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied,
		rpctypes.ErrPermissionNotGranted, rpctypes.ErrAuthNotEnabled, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var onWire rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &onWire) {
		code = onWire.Code()
	}
	switch code {
	case codes.PermissionDenied, codes.Unimplemented, codes.InvalidArgument:
		return true
	}
	return false
}
