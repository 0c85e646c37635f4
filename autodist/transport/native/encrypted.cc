#include "encrypted.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "openssl.h"

#ifndef AUTODIST_RECORDS_PER_KEY
// AES-GCM is safe for 2^24.5 records with one key (RFC 8446, 5.5): 400 GB, which is not much for a training.
#define AUTODIST_RECORDS_PER_KEY (1u << 22)
#endif

namespace autodist {
namespace {

// Of <openssl/ssl.h> and <openssl/bio.h>.
constexpr int kSetReadAhead = 41, kSetCacheMode = 44, kSetLeastVersion = 123;
constexpr long kVersion13 = 0x0304;
constexpr unsigned long kEndIsNoError = 1ul << 7;
constexpr int kVerifyPeer = 1;
constexpr int kWantRead = 2, kErrorSystem = 5, kClosed = 6;
constexpr int kSourceSink = 0x0400, kReading = 1, kWriting = 2, kRetry = 8, kFlush = 11;

constexpr size_t kRecord = 16 << 10;       // bytes that a record can have
constexpr size_t kReadAtOnce = 128 << 10;  // bytes that one call of the system reads
constexpr size_t kSendAtOnce = 128 << 10;  // bytes that are encrypted before they are sent
constexpr unsigned char kCipher[] = {0x13, 0x01};
constexpr const char* kCipherName = "TLS_AES_128_GCM_SHA256";  // of the three the fastest, and enough
constexpr unsigned char kIdentity[] = {'a', 'u', 't', 'o', 'd', 'i', 's', 't'};

// One for all connections: TLS 1.3, by a key that both ends have, and by nothing else.
ssl_ctx_st* context() {
  static ssl_ctx_st* const made = [] {
    const auto* ssl = openssl();
    ssl_ctx_st* context = ssl->SSL_CTX_new(ssl->TLS_method());
    ssl->SSL_CTX_ctrl(context, kSetLeastVersion, kVersion13, nullptr);
    ssl->SSL_CTX_ctrl(context, kSetReadAhead, 1, nullptr);
    ssl->SSL_CTX_ctrl(context, kSetCacheMode, 0, nullptr);
    ssl->SSL_CTX_set_options(context, kEndIsNoError);
    ssl->SSL_CTX_set_ciphersuites(context, kCipherName);
    ssl->SSL_CTX_set_num_tickets(context, 0);
    ssl->SSL_CTX_set_default_read_buffer_len(context, kReadAtOnce);
    return context;
  }();
  return made;
}

int give_session(ssl_st* connection, ssl_session_st** session) {
  const auto* ssl = openssl();
  *session = static_cast<ssl_session_st*>(ssl->SSL_get_ex_data(connection, 0));
  return ssl->SSL_SESSION_up_ref(*session);
}

int use_session(ssl_st* connection, const evp_md_st*, const unsigned char** id, size_t* size, ssl_session_st** session) {
  *id = kIdentity;
  *size = sizeof kIdentity;
  return give_session(connection, session);
}

int find_session(ssl_st* connection, const unsigned char* id, size_t size, ssl_session_st** session) {
  *session = nullptr;
  const bool is_ours = size == sizeof kIdentity && std::memcmp(id, kIdentity, size) == 0;
  return is_ours ? give_session(connection, session) : 1;
}

class Encrypted : public Channel {
 public:
  Encrypted(std::unique_ptr<Channel> raw, const unsigned char* key, bool is_calling);
  ~Encrypted() override;

  void shake_hands(double timeout_s);
  size_t send(const iovec* pieces, size_t count) override;
  size_t receive(const iovec* pieces, size_t count) override;
  bool has_unread() const override { return has_unread_; }

 private:
  static int collect(bio_st* bio, const char* data, int size);
  static int read(bio_st* bio, char* data, int size);
  static long control(bio_st* bio, int command, long, void*);
  static const bio_method_st* method();
  bool push();
  void encrypt(const iovec* pieces, size_t count, size_t skipped);
  void check(int result);
  void renew_key();
  void note_end(int result, bool is_later);

  const OpenSsl& ssl_;
  ssl_st* connection_;
  ssl_session_st* session_;
  std::array<char, kRecord> record_;  // of small pieces, which are encrypted together
  std::vector<char> leaving_;         // what is encrypted and has not left, from `left_` on
  size_t left_ = 0;
  size_t pending_ = 0;    // bytes of which that was made
  uint32_t records_ = 0;  // that were sent with this key
  bool has_unread_ = false;
  std::string failure_;  // that is to be told next
};

Encrypted::Encrypted(std::unique_ptr<Channel> raw, const unsigned char* key, bool is_calling)
    : Channel(raw->release()), ssl_(*openssl()), connection_(ssl_.SSL_new(context())), session_(ssl_.SSL_SESSION_new()) {
  ssl_.SSL_SESSION_set1_master_key(session_, key, kKeyBytes);
  ssl_.SSL_SESSION_set_cipher(session_, ssl_.SSL_CIPHER_find(connection_, kCipher));
  ssl_.SSL_SESSION_set_protocol_version(session_, kVersion13);
  ssl_.SSL_set_ex_data(connection_, 0, session_);
  bio_st* bio = ssl_.BIO_new(method());
  ssl_.BIO_set_data(bio, this);
  ssl_.BIO_set_init(bio, 1);
  ssl_.SSL_set_bio(connection_, bio, bio);
  if (is_calling) {
    ssl_.SSL_set_psk_use_session_callback(connection_, use_session);
    ssl_.SSL_set_verify(connection_, kVerifyPeer, nullptr);  // no certificate does instead of the key
    ssl_.SSL_set_connect_state(connection_);
  } else {
    ssl_.SSL_set_psk_find_session_callback(connection_, find_session);
    ssl_.SSL_set_accept_state(connection_);
  }
}

Encrypted::~Encrypted() {
  ssl_.SSL_free(connection_);
  ssl_.SSL_SESSION_free(session_);
}

// Throws Lost unless the result of a call of OpenSSL means that more has to come first.
void Encrypted::check(int result) {
  const int error = errno;
  const int kind = ssl_.SSL_get_error(connection_, result);
  if (kind == kWantRead) return;
  if (kind == kClosed || (kind == kErrorSystem && error == 0)) throw Lost("it has closed its connection");
  if (kind == kErrorSystem) lose("it could not be heard", error);
  const char* reason = ssl_.ERR_reason_error_string(ssl_.ERR_get_error());
  throw Lost(std::string("what it sends is not of this run, or was changed on the way (TLS: ") +
             (reason ? reason : "an error") + ")");
}

void Encrypted::shake_hands(double timeout_s) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
  for (;;) {
    ssl_.ERR_clear_error();
    errno = 0;
    const int result = ssl_.SSL_do_handshake(connection_);
    const bool has_left = push();
    if (result == 1 && has_left) break;
    if (result != 1) check(result);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) throw Lost("it did not say in time how to encrypt");
    pollfd waited{socket(), static_cast<short>(has_left ? POLLIN : POLLOUT), 0};
    (void)poll(&waited, 1, static_cast<int>(std::min<long>(left, 1000)));
  }
  if (!ssl_.SSL_session_reused(connection_)) throw Lost("it has not shown that it has the key of this run");
}

// OpenSSL writes here; the bytes leave later, many records at once.
int Encrypted::collect(bio_st* bio, const char* data, int size) {
  const auto* ssl = openssl();
  ssl->BIO_clear_flags(bio, kReading | kWriting | kRetry);
  auto& leaving = static_cast<Encrypted*>(ssl->BIO_get_data(bio))->leaving_;
  leaving.insert(leaving.end(), data, data + size);
  return size;
}

int Encrypted::read(bio_st* bio, char* data, int size) {
  const auto* ssl = openssl();
  ssl->BIO_clear_flags(bio, kReading | kWriting | kRetry);
  const int socket = static_cast<Encrypted*>(ssl->BIO_get_data(bio))->socket();
  const ssize_t got = recv(socket, data, static_cast<size_t>(size), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    ssl->BIO_set_flags(bio, kReading | kRetry);
  }
  return static_cast<int>(got);
}

long Encrypted::control(bio_st*, int command, long, void*) { return command == kFlush; }

const bio_method_st* Encrypted::method() {
  static const bio_method_st* const made = [] {
    const auto* ssl = openssl();
    bio_method_st* method = ssl->BIO_meth_new(kSourceSink | 127, "autodist");
    ssl->BIO_meth_set_write(method, collect);
    ssl->BIO_meth_set_read(method, read);
    ssl->BIO_meth_set_ctrl(method, control);
    return method;
  }();
  return made;
}

// Whether all that is encrypted has left.
bool Encrypted::push() {
  while (left_ < leaving_.size()) {
    const ssize_t sent = ::send(socket(), leaving_.data() + left_, leaving_.size() - left_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (sent < 0) lose("it could not be sent to", errno);
    left_ += static_cast<size_t>(sent);
  }
  leaving_.clear();
  left_ = 0;
  return true;
}

// Takes a new key for this end after some records, which OpenSSL never does by itself. The other end follows when it
// reads the note that leaves with the next record.
void Encrypted::renew_key() {
  if (++records_ < AUTODIST_RECORDS_PER_KEY) return;
  records_ = 0;
  (void)ssl_.SSL_key_update(connection_, 0);
}

size_t copied(const iovec* pieces, size_t count, size_t skipped, char* to, size_t most) {
  size_t size = 0;
  for (size_t k = 0; k < count && size < most; ++k) {
    const size_t passed = std::min(skipped, pieces[k].iov_len);
    skipped -= passed;
    const size_t part = std::min(pieces[k].iov_len - passed, most - size);
    if (part) std::memcpy(to + size, static_cast<const char*>(pieces[k].iov_base) + passed, part);
    size += part;
  }
  return size;
}

// What is left of the first piece that is not skipped as a whole.
iovec rest(const iovec* pieces, size_t count, size_t skipped) {
  for (size_t k = 0; k < count; ++k) {
    if (skipped < pieces[k].iov_len) {
      return {static_cast<char*>(pieces[k].iov_base) + skipped, pieces[k].iov_len - skipped};
    }
    skipped -= pieces[k].iov_len;
  }
  return {nullptr, 0};
}

// Some of what follows the bytes that are skipped, record by record.
void Encrypted::encrypt(const iovec* pieces, size_t count, size_t skipped) {
  while (pending_ < kSendAtOnce) {
    const iovec first = rest(pieces, count, skipped + pending_);
    const bool is_large = first.iov_len >= kRecord;
    const size_t size = is_large ? kRecord : copied(pieces, count, skipped + pending_, record_.data(), kRecord);
    if (!size) return;
    ssl_.ERR_clear_error();
    const void* data = is_large ? first.iov_base : record_.data();
    if (ssl_.SSL_write(connection_, data, static_cast<int>(size)) <= 0) throw Lost("what is sent to it can't be encrypted");
    pending_ += size;
    renew_key();
  }
}

size_t Encrypted::send(const iovec* pieces, size_t count) {
  for (size_t sent = 0;;) {
    if (!push()) return sent;
    sent += pending_;
    pending_ = 0;
    encrypt(pieces, count, sent);
    if (!pending_) return sent;
  }
}

// What came before an end is to be had before it; the system says nothing of that end any more.
void Encrypted::note_end(int result, bool is_later) {
  try {
    check(result);
  } catch (const Lost& error) {
    if (!is_later) throw;
    failure_ = error.what();
    has_unread_ = true;
  }
}

size_t Encrypted::receive(const iovec* pieces, size_t count) {
  size_t size = 0;
  has_unread_ = false;
  if (!failure_.empty()) throw Lost(failure_);
  for (size_t k = 0; k < count; ++k) {
    for (size_t begin = 0; begin < pieces[k].iov_len;) {
      ssl_.ERR_clear_error();
      errno = 0;
      const size_t most = pieces[k].iov_len - begin;
      const int got = ssl_.SSL_read(connection_, static_cast<char*>(pieces[k].iov_base) + begin, static_cast<int>(most));
      if (got <= 0) {
        note_end(got, size > 0);
        return size;
      }
      begin += static_cast<size_t>(got);
      size += static_cast<size_t>(got);
    }
  }
  has_unread_ = true;
  return size;
}

}  // namespace

// One after the other, of which each process comes to the lower pairs of ranks first: so nobody waits for ever.
Channels encrypted(int rank, const std::vector<int>& sockets, const unsigned char* keys, double timeout_s) {
  Channels raw = plain(sockets), made(sockets.size());
  for (size_t other = 0; other < sockets.size(); ++other) {
    if (!raw[other]) continue;
    try {
      if (!openssl()) throw Lost("there is no OpenSSL 3 on this machine");
      const bool is_calling = static_cast<int>(other) < rank;
      auto one = std::make_unique<Encrypted>(std::move(raw[other]), keys + other * kKeyBytes, is_calling);
      one->shake_hands(timeout_s);
      made[other] = std::move(one);
    } catch (const Lost& error) {
      throw Lost("worker " + std::to_string(other) + ": " + error.what());
    }
  }
  return made;
}

}  // namespace autodist
