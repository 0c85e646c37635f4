#include "openssl.h"

#include <dlfcn.h>

#include <type_traits>

namespace autodist {
namespace {

// TensorFlow's library has functions of the same names, for all to see; the system's must find their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kHow = RTLD_NOW | RTLD_LOCAL;  // sanitizers refuse the other, and are not used with TensorFlow
#else
constexpr int kHow = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

const OpenSsl* look_up() {
  void* library = dlopen("libssl.so.3", kHow);
  if (!library) return nullptr;
  static OpenSsl found;
  bool is_whole = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    is_whole = is_whole && function;
  };
#define FIND(name) find(found.name, #name)
  FIND(TLS_method);
  FIND(SSL_CTX_new);
  FIND(SSL_CTX_free);
  FIND(SSL_CTX_ctrl);
  FIND(SSL_CTX_set_options);
  FIND(SSL_CTX_set_ciphersuites);
  FIND(SSL_CTX_set_num_tickets);
  FIND(SSL_CTX_set_default_read_buffer_len);
  FIND(SSL_new);
  FIND(SSL_free);
  FIND(SSL_set_ex_data);
  FIND(SSL_get_ex_data);
  FIND(SSL_set_psk_use_session_callback);
  FIND(SSL_set_psk_find_session_callback);
  FIND(SSL_set_verify);
  FIND(SSL_set_bio);
  FIND(SSL_set_connect_state);
  FIND(SSL_set_accept_state);
  FIND(SSL_do_handshake);
  FIND(SSL_session_reused);
  FIND(SSL_get_error);
  FIND(SSL_read);
  FIND(SSL_write);
  FIND(SSL_key_update);
  FIND(SSL_CIPHER_find);
  FIND(SSL_SESSION_new);
  FIND(SSL_SESSION_free);
  FIND(SSL_SESSION_up_ref);
  FIND(SSL_SESSION_set1_master_key);
  FIND(SSL_SESSION_set_cipher);
  FIND(SSL_SESSION_set_protocol_version);
  FIND(BIO_meth_new);
  FIND(BIO_meth_set_write);
  FIND(BIO_meth_set_read);
  FIND(BIO_meth_set_ctrl);
  FIND(BIO_new);
  FIND(BIO_set_data);
  FIND(BIO_get_data);
  FIND(BIO_set_init);
  FIND(BIO_set_flags);
  FIND(BIO_clear_flags);
  FIND(ERR_get_error);
  FIND(ERR_reason_error_string);
  FIND(ERR_clear_error);
#undef FIND
  return is_whole ? &found : nullptr;
}

}  // namespace

const OpenSsl* openssl() {
  static const OpenSsl* const found = look_up();
  return found;
}

}  // namespace autodist
