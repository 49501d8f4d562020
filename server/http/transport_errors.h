/* transport_errors.h - rewrites libmicrohttpd's own error replies as tensord's. */
#ifndef TD_SERVER_HTTP_TRANSPORT_ERRORS_H
#define TD_SERVER_HTTP_TRANSPORT_ERRORS_H

struct MHD_Connection;

/* For MHD_OPTION_URI_LOG_CALLBACK: records the API of the request that is being read. */
void *td_transport_note_path(void *context, const char *path, struct MHD_Connection *connection);

#endif
