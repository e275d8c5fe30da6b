#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <charconv>
#include <optional>

namespace trainctl::launch {
namespace {

constexpr std::size_t kMaxHostBytes = 253;  // of a name in DNS
constexpr std::size_t kShownBytes = 80;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(
      ErrorKind::config,
      fmt::format("'{}'{} is no endpoint: {} (HOST:PORT, as node1:{} or [fd00::1]:{})",
                  printable(text.substr(0, kShownBytes)), text.size() > kShownBytes ? "..." : "",
                  why, kRendezvousPort, kRendezvousPort));
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Names are left to the name service, but for what cannot be part of one.
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
  std::uint16_t value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (error != std::errc() || end != port.data() + port.size() || value == 0)
    refuse(text,
           fmt::format("the port is '{}', not 1 to 65535", printable(port.substr(0, kShownBytes))));
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
  if (!may_be_ipv6(host)) refuse(text, "what is in brackets is no address of IPv6");
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) return {host, std::nullopt};
  if (rest.front() != ':') refuse(text, "behind the bracket there is no ':'");
  return {host, rest.substr(1)};
}

Parts parts_of(std::string_view text) {
  if (text.starts_with('[')) return parts_in_brackets(text);
  const std::size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (colon == std::string_view::npos) return {host, std::nullopt};
  if (text.find(':', colon + 1) != std::string_view::npos)
    refuse(text, "an address of IPv6 stands in brackets");
  return {host, text.substr(colon + 1)};
}

}  // namespace

Endpoint parse_endpoint(std::string_view text) {
  const Parts parts = parts_of(text);
  if (parts.host.empty()) refuse(text, "it names no host");
  if (parts.host.size() > kMaxHostBytes) refuse(text, "the host is too long");
  if (!may_be_ipv6(parts.host) && !may_be_name(parts.host))
    refuse(text, "the host has characters that no name has");
  return {std::string(parts.host), parts.port ? parse_port(*parts.port, text) : kRendezvousPort};
}

std::string to_text(const Endpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", endpoint.host, is_v6 ? "]" : "", endpoint.port);
}

std::string to_text(const Claim& claim) {
  return fmt::format("{} {}", claim.role == Role::rank ? "rank" : "node", claim.number);
}

}  // namespace trainctl::launch
