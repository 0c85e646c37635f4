// The part of OpenSSL's interface that is used here (openssl/{ssl,bio,err}.h of version 3).
//
// Declared instead of included, and looked up when it is needed, so that this library can be built and used where there
// is no OpenSSL, and has the one that the system keeps up to date where there is.
#pragma once

#include <cstddef>

extern "C" {
struct ssl_st;
struct ssl_ctx_st;
struct ssl_method_st;
struct ssl_session_st;
struct ssl_cipher_st;
struct bio_st;
struct bio_method_st;
struct evp_md_st;
}

namespace autodist {

// Each member is the function of that name.
struct OpenSsl {
  using UseSession = int (*)(ssl_st*, const evp_md_st*, const unsigned char** id, size_t* id_size, ssl_session_st**);
  using FindSession = int (*)(ssl_st*, const unsigned char* id, size_t id_size, ssl_session_st**);

  const ssl_method_st* (*TLS_method)();
  ssl_ctx_st* (*SSL_CTX_new)(const ssl_method_st*);
  void (*SSL_CTX_free)(ssl_ctx_st*);
  long (*SSL_CTX_ctrl)(ssl_ctx_st*, int command, long value, void*);
  unsigned long (*SSL_CTX_set_options)(ssl_ctx_st*, unsigned long);  // 64 bits, as on all systems that are meant
  int (*SSL_CTX_set_ciphersuites)(ssl_ctx_st*, const char*);
  int (*SSL_CTX_set_num_tickets)(ssl_ctx_st*, size_t);
  void (*SSL_CTX_set_default_read_buffer_len)(ssl_ctx_st*, size_t);

  ssl_st* (*SSL_new)(ssl_ctx_st*);
  void (*SSL_free)(ssl_st*);
  int (*SSL_set_ex_data)(ssl_st*, int at, void*);
  void* (*SSL_get_ex_data)(const ssl_st*, int at);
  void (*SSL_set_psk_use_session_callback)(ssl_st*, UseSession);
  void (*SSL_set_psk_find_session_callback)(ssl_st*, FindSession);
  void (*SSL_set_verify)(ssl_st*, int mode, int (*)(int, void*));
  void (*SSL_set_bio)(ssl_st*, bio_st* reading, bio_st* writing);
  void (*SSL_set_connect_state)(ssl_st*);
  void (*SSL_set_accept_state)(ssl_st*);
  int (*SSL_do_handshake)(ssl_st*);
  int (*SSL_session_reused)(const ssl_st*);
  int (*SSL_get_error)(const ssl_st*, int result);
  int (*SSL_read)(ssl_st*, void*, int size);
  int (*SSL_write)(ssl_st*, const void*, int size);
  int (*SSL_key_update)(ssl_st*, int kind);

  const ssl_cipher_st* (*SSL_CIPHER_find)(ssl_st*, const unsigned char* id);
  ssl_session_st* (*SSL_SESSION_new)();
  void (*SSL_SESSION_free)(ssl_session_st*);
  int (*SSL_SESSION_up_ref)(ssl_session_st*);
  int (*SSL_SESSION_set1_master_key)(ssl_session_st*, const unsigned char*, size_t);
  int (*SSL_SESSION_set_cipher)(ssl_session_st*, const ssl_cipher_st*);
  int (*SSL_SESSION_set_protocol_version)(ssl_session_st*, int);

  bio_method_st* (*BIO_meth_new)(int type, const char* name);
  int (*BIO_meth_set_write)(bio_method_st*, int (*)(bio_st*, const char*, int));
  int (*BIO_meth_set_read)(bio_method_st*, int (*)(bio_st*, char*, int));
  int (*BIO_meth_set_ctrl)(bio_method_st*, long (*)(bio_st*, int, long, void*));
  bio_st* (*BIO_new)(const bio_method_st*);
  void (*BIO_set_data)(bio_st*, void*);
  void* (*BIO_get_data)(bio_st*);
  void (*BIO_set_init)(bio_st*, int);
  void (*BIO_set_flags)(bio_st*, int);
  void (*BIO_clear_flags)(bio_st*, int);

  unsigned long (*ERR_get_error)();
  const char* (*ERR_reason_error_string)(unsigned long);
  void (*ERR_clear_error)();
};

// The functions of the system's OpenSSL 3; null if there is none.
const OpenSsl* openssl();

}  // namespace autodist
