/* transport_errors.h - rewrites libmicrohttpd's own error replies as tensord's. */
#ifndef TD_SERVER_HTTP_TRANSPORT_ERRORS_H
#define TD_SERVER_HTTP_TRANSPORT_ERRORS_H

struct MHD_Connection;

/* For MHD_OPTION_URI_LOG_CALLBACK: records whether the request being read is one of /v1 or /v2. */
void *td_transport_record_path(void *context, const char *path, struct MHD_Connection *connection);

#endif
