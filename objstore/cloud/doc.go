// Package cloud implements object stores of cloud providers: S3 and compatible stores, Google Cloud Storage, and
// Azure Blob Storage. It is the only package that uses the providers' libraries.
//
// A store is named by a URL, whose path, if any, is prepended to every key:
//
//	s3://bucket/path?region=eu-central-1
//	s3://bucket?endpoint=http://127.0.0.1:9000
//	gs://bucket/path
//	azblob://container/path
//
// # S3
//
// Credentials come from where the AWS tools take them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the shared files, or
// the machine's role. Options in the query:
//
//	region                        else AWS_REGION; us-east-1 if there is an endpoint and neither says
//	endpoint                      URL of a store that is not AWS; implies the next three
//	use_path_style                bucket in the path instead of the host name; true with an endpoint
//	request_checksum_calculation  when_supported or when_required; when_required with an endpoint
//	response_checksum_validation  when_supported or when_required; when_required with an endpoint
//	profile, anonymous, role, web_identity_token_file, dualstack, fips, accelerate, disable_https, ssetype, kmskeyid
//	                              as gocloud.dev has them
//
// Many stores other than AWS refuse the checksum headers that the AWS library sends by default, hence their defaults with
// an endpoint. With when_supported, [Store.Get] verifies the bytes against the checksum that S3 keeps.
//
// [Store.Delete] sends the request that deletes 1,000 keys, with the Content-MD5 header where when_required is in
// force. A store without it is recognised by its response, and gets one request per key from then on.
//
// [Store.PutIfAbsent] is one PUT with If-None-Match, whatever the size. [Store.Create] finishes a multipart upload
// under the same condition (CompleteMultipartUpload). AWS honours it; some S3-compatible stores do not support it
// there, and replace the object at the key. So the first call tests this, with an object of its own under
// [objstore.ProbePrefix]; if it was replaced, or the request refused as unsupported, [Options.Replaces] is called, and
// every upload checks its key immediately before it is finished. An object created between that check and the end,
// which is as long as the last part takes, is then replaced.
//
// # Google Cloud Storage and Azure
//
// Credentials come from GOOGLE_APPLICATION_CREDENTIALS or the machine's account, and from AZURE_STORAGE_ACCOUNT with
// AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING or the machine's identity.
// STORAGE_EMULATOR_HOST names another Google endpoint; AZURE_STORAGE_DOMAIN, or domain, protocol and localemu in the
// query, another Azure one.
//
// # Retries
//
// The providers' libraries try a failed request again a few times before they report it. So [objstore.ErrExists] may be
// about the very call that returns it.
package cloud
