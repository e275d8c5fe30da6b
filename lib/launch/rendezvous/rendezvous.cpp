#include "launch/rendezvous/rendezvous.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace trainctl::launch {
namespace {

constexpr std::size_t kMaxHostBytes = 253;  // maximum length of a DNS name
constexpr std::size_t kShownEndpointBytes = 80;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(
      ErrorKind::config,
      fmt::format(
          "an endpoint must be HOST:PORT, got '{0}'{1}: {2}\nhint: write an endpoint such as "
          "node1:{3} or [fd00::1]:{3}",
          printable(text.substr(0, kShownEndpointBytes)),
          text.size() > kShownEndpointBytes ? "..." : "", why, kRendezvousPort));
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Rejects only characters that no name can contain; the name service decides about the rest.
bool may_be_name(std::string_view host) {
  for (const char c : host) {
    if (!is_letter_or_digit(c) && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

bool may_be_ipv6(std::string_view host) {
  const std::size_t scope = host.find('%');
  if (scope != std::string_view::npos && !may_be_name(host.substr(scope + 1))) return false;
  const std::string_view digits = host.substr(0, scope);
  return digits.find(':') != std::string_view::npos &&
         digits.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

std::uint16_t parse_port(std::string_view port, std::string_view text) {
  const auto value = parse_number<std::uint16_t>(port).value_or(0);
  if (value == 0)
    refuse(text, fmt::format("the port must be 1 to 65535, got '{}'",
                             printable(port.substr(0, kShownEndpointBytes))));
  return value;
}

struct Parts {
  std::string_view host;
  std::optional<std::string_view> port;
};

Parts parts_in_brackets(std::string_view text) {
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos) refuse(text, "the bracket is not closed");
  const std::string_view host = text.substr(1, close - 1);
  if (!may_be_ipv6(host)) refuse(text, "the text in brackets is not an IPv6 address");
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) return {host, std::nullopt};
  if (rest.front() != ':') refuse(text, "the bracket is not followed by ':'");
  return {host, rest.substr(1)};
}

Parts parts_of(std::string_view text) {
  if (text.starts_with('[')) return parts_in_brackets(text);
  const std::size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (colon == std::string_view::npos) return {host, std::nullopt};
  if (text.find(':', colon + 1) != std::string_view::npos)
    refuse(text, "an IPv6 address must be in brackets");
  return {host, text.substr(colon + 1)};
}

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

// Reads one byte more than allowed, to detect a longer file.
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

// Like the temporary files of base/files.hpp, but with a mode that no other user can ever open.
Fd make_own_file(const fs::path& path) {
  ::unlink(path.c_str());  // left by a killed process with the same pid
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  ENSURE(resource, fd.valid(), "cannot write the token to {}: {}", printable(path.string()),
         std::strerror(errno));
  return fd;
}

}  // namespace

Endpoint parse_endpoint(std::string_view text) {
  const Parts parts = parts_of(text);
  if (parts.host.empty()) refuse(text, "the host is missing");
  if (parts.host.size() > kMaxHostBytes) refuse(text, "the host is too long");
  if (!may_be_ipv6(parts.host) && !may_be_name(parts.host))
    refuse(text, "the host has invalid characters");
  return {std::string(parts.host), parts.port ? parse_port(*parts.port, text) : kRendezvousPort};
}

std::string to_text(const Endpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", endpoint.host, is_v6 ? "]" : "", endpoint.port);
}

std::string to_text(const Claim& claim) {
  return fmt::format("{} {}", claim.role == Role::rank ? "rank" : "node", claim.number);
}

Token make_token() {
  Token token{};
  fill_with_random(token);
  return token;
}

Token parse_token(std::string_view hex, std::string_view where) {
  const std::string_view digits = trimmed(hex);
  ENSURE(config, digits.size() == kDigits,
         "{}: a rendezvous token must have {} hexadecimal digits, got {} characters\nhint: create "
         "one with `openssl rand -hex 32`",
         where, kDigits, digits.size());
  Token token{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const int value = digit_value(digits[i]);
    ENSURE(config, value >= 0,
           "{}: a rendezvous token must have {} hexadecimal digits, but character {} is not one",
           where, kDigits, i + 1);
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
  // Without O_NONBLOCK, opening a named pipe would block.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ENSURE(config, fd.valid(), "cannot read the token in {}: {}", label, std::strerror(errno));
  struct stat info {};
  ENSURE(config, ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode),
         "cannot read the token in {}: it is not a regular file", label);
  ENSURE(config, (info.st_mode & kOthers) == 0,
         "other users can read the token in {} (mode {:04o})\nhint: run `chmod 600` on it, and "
         "create a new token if they are not trusted",
         label, static_cast<unsigned>(info.st_mode & 07777));
  const std::string text = read_at_most(fd.get(), kMaxFileBytes, label);
  ENSURE(config, text.size() <= kMaxFileBytes, "{} is not a token file: it has more than {} bytes",
         label, kMaxFileBytes);
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
           "the file system of {} cannot hide the token from other users\nhint: pass the token in "
           "TRAINCTL_RDZV_TOKEN",
           label);
    write_all(fd.get(), token_digits(token) + "\n", label);
    publish(temporary, fd.get(), path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void fill_with_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::getrandom(bytes.data(), bytes.size(), 0);
    ENSURE(resource, count >= 0 || errno == EINTR, "cannot read random numbers from the kernel: {}",
           std::strerror(errno));
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace trainctl::launch
