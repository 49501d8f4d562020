/* without_p11_kit.c - replaces libp11-kit, which has no static library.
 *
 * GnuTLS uses libp11-kit for keys and certificates on smart cards and other PKCS #11 devices.
 * tensord reads keys and certificates from files (server/auth/tls.c), so the functions here load no
 * module, create no URI and store nothing. The file defines only the functions that libgnutls.a
 * refers to. */
#include <p11-kit/p11-kit.h>
#include <p11-kit/pin.h>
#include <p11-kit/uri.h>

#include <stddef.h>

/* ---- no modules */

CK_FUNCTION_LIST **p11_kit_modules_load(const char *reserved, int flags)
{
    (void)reserved, (void)flags;
    return NULL;
}

CK_FUNCTION_LIST *p11_kit_module_load(const char *module_path, int flags)
{
    (void)module_path, (void)flags;
    return NULL;
}

CK_RV p11_kit_module_finalize(CK_FUNCTION_LIST *module)
{
    (void)module;
    return CKR_CRYPTOKI_NOT_INITIALIZED;
}

void p11_kit_module_release(CK_FUNCTION_LIST *module)
{
    (void)module;
}

int p11_kit_module_get_flags(CK_FUNCTION_LIST *module)
{
    (void)module;
    return 0;
}

char *p11_kit_module_get_name(CK_FUNCTION_LIST *module)
{
    (void)module;
    return NULL;
}

char *p11_kit_config_option(CK_FUNCTION_LIST *module, const char *option)
{
    (void)module, (void)option;
    return NULL;
}

/* ---- messages */

const char *p11_kit_message(void)
{
    return "this program does not support PKCS #11";
}

const char *p11_kit_strerror(CK_RV rv)
{
    (void)rv;
    return p11_kit_message();
}

/* ---- text in the fixed-size fields of a module's descriptions */

size_t p11_kit_space_strlen(const unsigned char *string, size_t max_length)
{
    (void)string, (void)max_length;
    return 0;
}

char *p11_kit_space_strdup(const unsigned char *string, size_t max_length)
{
    (void)string, (void)max_length;
    return NULL;
}

/* ---- PINs: callbacks are neither kept nor called */

int p11_kit_pin_register_callback(const char *pin_source, p11_kit_pin_callback callback,
                                  void *callback_data, p11_kit_pin_destroy_func callback_destroy)
{
    (void)pin_source, (void)callback, (void)callback_data, (void)callback_destroy;
    return -1;
}

void p11_kit_pin_unregister_callback(const char *pin_source, p11_kit_pin_callback callback,
                                     void *callback_data)
{
    (void)pin_source, (void)callback, (void)callback_data;
}

P11KitPin *p11_kit_pin_request(const char *pin_source, P11KitUri *pin_uri,
                               const char *pin_description, P11KitPinFlags pin_flags)
{
    (void)pin_source, (void)pin_uri, (void)pin_description, (void)pin_flags;
    return NULL;
}

P11KitPin *p11_kit_pin_file_callback(const char *pin_source, P11KitUri *pin_uri,
                                     const char *pin_description, P11KitPinFlags pin_flags,
                                     void *callback_data)
{
    (void)callback_data;
    return p11_kit_pin_request(pin_source, pin_uri, pin_description, pin_flags);
}

P11KitPin *p11_kit_pin_new_for_string(const char *value)
{
    (void)value;
    return NULL;
}

size_t p11_kit_pin_get_length(P11KitPin *pin)
{
    (void)pin;
    return 0;
}

const unsigned char *p11_kit_pin_get_value(P11KitPin *pin, size_t *length)
{
    (void)pin;
    *length = 0;
    return NULL;
}

void p11_kit_pin_unref(P11KitPin *pin)
{
    (void)pin;
}

/* ---- URIs: none can be created, so the functions below have no URI to read */

P11KitUri *p11_kit_uri_new(void)
{
    return NULL;
}

void p11_kit_uri_free(P11KitUri *uri)
{
    (void)uri;
}

int p11_kit_uri_parse(const char *string, P11KitUriType uri_type, P11KitUri *uri)
{
    (void)string, (void)uri_type, (void)uri;
    return P11_KIT_URI_UNEXPECTED;
}

int p11_kit_uri_format(P11KitUri *uri, P11KitUriType uri_type, char **string)
{
    (void)uri, (void)uri_type;
    *string = NULL;
    return P11_KIT_URI_UNEXPECTED;
}

CK_ATTRIBUTE_PTR p11_kit_uri_get_attribute(P11KitUri *uri, CK_ATTRIBUTE_TYPE attr_type)
{
    (void)uri, (void)attr_type;
    return NULL;
}

CK_ATTRIBUTE_PTR p11_kit_uri_get_attributes(P11KitUri *uri, CK_ULONG *n_attrs)
{
    (void)uri;
    *n_attrs = 0;
    return NULL;
}

int p11_kit_uri_set_attribute(P11KitUri *uri, CK_ATTRIBUTE_PTR attr)
{
    (void)uri, (void)attr;
    return P11_KIT_URI_UNEXPECTED;
}

CK_INFO_PTR p11_kit_uri_get_module_info(P11KitUri *uri)
{
    (void)uri;
    return NULL;
}

CK_TOKEN_INFO_PTR p11_kit_uri_get_token_info(P11KitUri *uri)
{
    (void)uri;
    return NULL;
}

int p11_kit_uri_match_module_info(const P11KitUri *uri, const CK_INFO *info)
{
    (void)uri, (void)info;
    return 0;
}

int p11_kit_uri_match_token_info(const P11KitUri *uri, const CK_TOKEN_INFO *token_info)
{
    (void)uri, (void)token_info;
    return 0;
}

const char *p11_kit_uri_get_pin_source(const P11KitUri *uri)
{
    (void)uri;
    return NULL;
}

const char *p11_kit_uri_get_pin_value(const P11KitUri *uri)
{
    (void)uri;
    return NULL;
}
