/* transport_errors.h - what libmicrohttpd refuses by itself, in our words. */
#ifndef TD_SERVER_HTTP_TRANSPORT_ERRORS_H
#define TD_SERVER_HTTP_TRANSPORT_ERRORS_H

struct MHD_Connection;

/* For MHD_OPTION_URI_LOG_CALLBACK: notes which API the request that is being read is for. */
void *td_transport_note_path(void *context, const char *path, struct MHD_Connection *connection);

#endif
