package cloud

import (
	"context"
	"errors"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/tidemark-io/tidemark/objstore"
)

// classOf determines the class of a provider's error: from the provider's error code, then the HTTP status, then
// gocloud.dev's code. What failed before there was a response (connections, names, time-outs) is transient. Any other
// response, such as 400 or 501, has no class: a retry would get the same.
func classOf(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return objstore.ErrTransient // a time-out inside the library: the caller's own context has not ended
	}
	status, code := answer(err)
	if class, known := byCode(code); known {
		return class
	}
	if status != 0 {
		return byStatus(status)
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return objstore.ErrNotFound
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return objstore.ErrExists
	case gcerrors.PermissionDenied:
		return objstore.ErrDenied
	case gcerrors.ResourceExhausted:
		return objstore.ErrThrottled
	case gcerrors.InvalidArgument:
		return objstore.ErrInvalid
	case gcerrors.Unimplemented:
		return nil
	}
	return objstore.ErrTransient
}

// answer is the HTTP status and the provider's own word for an error, zero and empty if there was no answer.
func answer(err error) (status int, code string) {
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var aws *awshttp.ResponseError
	if errors.As(err, &aws) {
		return aws.HTTPStatusCode(), code
	}
	var azure *azcore.ResponseError
	if errors.As(err, &azure) {
		return azure.StatusCode, azure.ErrorCode
	}
	var google *googleapi.Error
	if errors.As(err, &google) {
		if len(google.Errors) > 0 {
			code = google.Errors[0].Reason
		}
		return google.Code, code
	}
	return 0, code
}

// byCode knows the words that say more than the status.
func byCode(code string) (class error, known bool) {
	switch code {
	case "NoSuchBucket", "ContainerNotFound", "AccountIsDisabled": // 404, but waiting does not help
		return objstore.ErrDenied, true
	case "BlobAlreadyExists": // 409
		return objstore.ErrExists, true
	case "ConditionalRequestConflict", "OperationAborted": // 409: two conditional puts at once, neither has won yet
		return objstore.ErrTransient, true
	case "RequestTimeout", "RequestTimeTooSkewed", "NoSuchUpload": // 400, 403, 404: a fresh request may pass
		return objstore.ErrTransient, true
	case "SlowDown", "ServerBusy", "TooManyRequests", "rateLimitExceeded", "userRateLimitExceeded":
		return objstore.ErrThrottled, true
	}
	return nil, false
}

func byStatus(status int) error {
	switch status {
	case http.StatusNotFound:
		return objstore.ErrNotFound
	case http.StatusPreconditionFailed:
		return objstore.ErrExists
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMovedPermanently:
		return objstore.ErrDenied
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return objstore.ErrThrottled
	case http.StatusRequestedRangeNotSatisfiable:
		return objstore.ErrInvalid
	case http.StatusConflict, http.StatusRequestTimeout:
		return objstore.ErrTransient
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return nil
	}
	if status >= 500 {
		return objstore.ErrTransient
	}
	return nil
}
