#include "launch/rendezvous/port_owner.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

namespace trainctl::launch {
namespace {

struct Holder {
  std::string user;
  std::string inode;
};

// As /proc/net/tcp writes it: the words of the address as they lie in memory.
std::string address_digits(const Address& address) {
  std::array<std::uint32_t, 4> words{};
  std::size_t count = 4;
  if (address.storage.ss_family == AF_INET) {
    count = 1;
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, 4);
  } else {
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr,
                16);
  }
  std::string digits;
  for (std::size_t i = 0; i < count; ++i) digits += fmt::format("{:08X}", words[i]);
  return digits;
}

bool holds(const std::string& local, const Address& address) {
  const std::string port = fmt::format(":{:04X}", endpoint_of(address).port);
  if (!local.ends_with(port)) return false;
  const std::string at = local.substr(0, local.size() - port.size());
  return at == address_digits(address) || at.find_first_not_of('0') == std::string::npos;
}

// A listener before a mere connection that has the port.
std::optional<Holder> holder_in(const char* table, const Address& address) {
  constexpr const char* kListening = "0A";
  std::ifstream lines(table);
  std::optional<Holder> found;
  std::string line;
  std::getline(lines, line);  // the heads of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retries, timeout;
    Holder holder;
    words >> slot >> local >> remote >> state >> queues >> timer >> retries >> holder.user >>
        timeout >> holder.inode;
    if (!words || !holds(local, address)) continue;
    if (state == kListening) return holder;
    if (!found && holder.inode != "0") found = holder;
  }
  return found;
}

bool has_socket(const fs::path& descriptors, const std::string& link) {
  std::error_code unseen;
  for (fs::directory_iterator it(descriptors, unseen), end; !unseen && it != end;
       it.increment(unseen)) {
    std::error_code gone;
    if (fs::read_symlink(it->path(), gone) == link) return true;
  }
  return false;
}

/// Empty: not to be seen, another user's.
std::string process_with(const std::string& inode) {
  const std::string link = fmt::format("socket:[{}]", inode);
  std::error_code unseen;
  for (fs::directory_iterator it("/proc", unseen), end; !unseen && it != end;
       it.increment(unseen)) {
    const std::string pid = it->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!has_socket(it->path() / "fd", link)) continue;
    std::string name;
    std::getline(std::ifstream(it->path() / "comm"), name);
    return fmt::format("process {} ({})", pid, printable(name));
  }
  return {};
}

}  // namespace

std::string owner_of_port(const Address& address) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto holder = holder_in(table, address);
    if (!holder) continue;
    const std::string process = process_with(holder->inode);
    return process.empty() ? fmt::format("a process of user id {}", holder->user) : process;
  }
  return {};
}

}  // namespace trainctl::launch
