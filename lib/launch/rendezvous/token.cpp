#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/random.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trainctl::launch {
namespace {

constexpr std::size_t kDigits = 2 * Token{}.size();
constexpr std::size_t kMaxFileBytes = 4096;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kWhite);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) - first + 1);
}

// One byte more than is allowed tells that there is more.
std::string read_at_most(int fd, std::size_t limit, const std::string& label) {
  std::string text(limit + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    ENSURE(config, count >= 0, "cannot read the token in {}: {}", label, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

// As base's, but nobody else may ever open it.
Fd make_own_file(const fs::path& path) {
  ::unlink(path.c_str());  // of a process of this number that was killed
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  ENSURE(resource, fd.valid(), "cannot write a token to {}: {}", printable(path.string()),
         std::strerror(errno));
  return fd;
}

}  // namespace

Token make_token() {
  Token token{};
  fill_with_random(token);
  return token;
}

Token parse_token(std::string_view hex, std::string_view where) {
  const std::string_view digits = trimmed(hex);
  ENSURE(config, digits.size() == kDigits,
         "{}: a rendezvous token has {} hexadecimal digits, this one {} characters (`openssl rand "
         "-hex 32` makes one)",
         where, kDigits, digits.size());
  Token token{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const int value = digit_value(digits[i]);
    ENSURE(config, value >= 0,
           "{}: a rendezvous token has {} hexadecimal digits; character {} is none", where, kDigits,
           i + 1);
    token[i / 2] = token[i / 2] << 4U | static_cast<std::byte>(value);
  }
  return token;
}

std::string token_digits(const Token& token) {
  std::string text;
  for (const std::byte byte : token) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

Token read_token_file(const fs::path& path) {
  const std::string label = printable(path.string());
  // Without O_NONBLOCK a named pipe would be waited for.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ENSURE(config, fd.valid(), "cannot read the token in {}: {}", label, std::strerror(errno));
  struct stat info {};
  ENSURE(config, ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode),
         "the token in {} cannot be read: it is no regular file", label);
  ENSURE(config, (info.st_mode & kOthers) == 0,
         "others than its owner may use the token in {} (mode {:04o}): `chmod 600` it, and make a "
         "new one if they are not trusted",
         label, static_cast<unsigned>(info.st_mode & 07777));
  const std::string text = read_at_most(fd.get(), kMaxFileBytes, label);
  ENSURE(config, text.size() <= kMaxFileBytes, "{} has more than {} bytes: it is no token", label,
         kMaxFileBytes);
  return parse_token(text, label);
}

void write_token_file(const fs::path& path, const Token& token) {
  const std::string label = printable(path.string());
  const fs::path temporary =
      path.parent_path() / fmt::format(".{}.tmp.{}", path.filename().string(), ::getpid());
  const Fd fd = make_own_file(temporary);
  try {
    struct stat info {};
    ENSURE(resource,
           ::fchmod(fd.get(), 0600) == 0 && ::fstat(fd.get(), &info) == 0 &&
               (info.st_mode & kOthers) == 0,
           "the file system of {} does not keep a token from others: hand it over in "
           "TRAINCTL_RDZV_TOKEN",
           label);
    write_all(fd.get(), token_digits(token) + "\n", label);
    publish(temporary, fd.get(), path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace trainctl::launch
