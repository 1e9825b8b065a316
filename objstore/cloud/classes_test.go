package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"

	"github.com/tidemark-io/tidemark/objstore"
)

func awsAnswer(status int, code string) error {
	response := &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
		Err:      &smithy.GenericAPIError{Code: code},
	}
	return &smithy.OperationError{ServiceID: "S3", Err: &awshttp.ResponseError{ResponseError: response}}
}

func azureAnswer(status int, code string) error {
	return &azcore.ResponseError{StatusCode: status, ErrorCode: code}
}

func googleAnswer(status int, reason string) error {
	return &googleapi.Error{Code: status, Errors: []googleapi.ErrorItem{{Reason: reason}}}
}

func TestAnswersHaveTheirClass(t *testing.T) {
	for _, c := range []struct {
		err   error
		class error // nil for final
	}{
		{awsAnswer(404, "NoSuchKey"), objstore.ErrNotFound},
		{awsAnswer(404, "NoSuchBucket"), objstore.ErrDenied},
		{awsAnswer(404, "NoSuchUpload"), objstore.ErrTransient},
		{awsAnswer(403, "AccessDenied"), objstore.ErrDenied},
		{awsAnswer(403, "SignatureDoesNotMatch"), objstore.ErrDenied},
		{awsAnswer(403, "RequestTimeTooSkewed"), objstore.ErrTransient},
		{awsAnswer(401, "Unauthorized"), objstore.ErrDenied},
		{awsAnswer(301, "PermanentRedirect"), objstore.ErrDenied},
		{awsAnswer(409, "ConditionalRequestConflict"), objstore.ErrTransient},
		{awsAnswer(409, "OperationAborted"), objstore.ErrTransient},
		{awsAnswer(412, "PreconditionFailed"), objstore.ErrExists},
		{awsAnswer(416, "InvalidRange"), objstore.ErrInvalid},
		{awsAnswer(400, "RequestTimeout"), objstore.ErrTransient},
		{awsAnswer(400, "InvalidRequest"), nil},
		{awsAnswer(501, "NotImplemented"), nil},
		{awsAnswer(500, "InternalError"), objstore.ErrTransient},
		{awsAnswer(502, ""), objstore.ErrTransient},
		{awsAnswer(504, ""), objstore.ErrTransient},
		{awsAnswer(503, "SlowDown"), objstore.ErrThrottled},
		{awsAnswer(503, "ServiceUnavailable"), objstore.ErrThrottled},
		{awsAnswer(429, "TooManyRequests"), objstore.ErrThrottled},

		{azureAnswer(404, "BlobNotFound"), objstore.ErrNotFound},
		{azureAnswer(404, "ContainerNotFound"), objstore.ErrDenied},
		{azureAnswer(409, "BlobAlreadyExists"), objstore.ErrExists},
		{azureAnswer(412, "ConditionNotMet"), objstore.ErrExists},
		{azureAnswer(403, "AuthenticationFailed"), objstore.ErrDenied},
		{azureAnswer(503, "ServerBusy"), objstore.ErrThrottled},
		{azureAnswer(500, "OperationTimedOut"), objstore.ErrTransient},

		{googleAnswer(404, "notFound"), objstore.ErrNotFound},
		{googleAnswer(412, "conditionNotMet"), objstore.ErrExists},
		{googleAnswer(403, "forbidden"), objstore.ErrDenied},
		{googleAnswer(403, "rateLimitExceeded"), objstore.ErrThrottled},
		{googleAnswer(429, ""), objstore.ErrThrottled},
		{googleAnswer(503, "backendError"), objstore.ErrThrottled},

		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, objstore.ErrTransient},
		{context.DeadlineExceeded, objstore.ErrTransient}, // of the library's own
	} {
		require.Equal(t, c.class, classOf(fmt.Errorf("wrapped: %w", c.err)), "%v", c.err)
	}
}
