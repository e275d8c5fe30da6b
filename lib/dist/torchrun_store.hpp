#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trainctl::dist {

/// The key-value store of torchrun, which runs on the host of its first agent.
struct TcpStoreAddress {
  std::string host;
  std::uint16_t port = 0;
  std::chrono::milliseconds timeout{300'000};  // how long to wait for a key
};

/// Sets or replaces a key of the store. Throws Error(rank_failed) if the store is unreachable or
/// the connection is lost. Anybody who can connect to the store can read it.
void publish_text(const TcpStoreAddress& store, const std::string& key, const std::string& text);

/// Waits until the key is set and returns its value. Throws Error(hang) on timeout,
/// Error(rank_failed) as above, and Error(config) for more than 64 KiB.
std::string fetch_text(const TcpStoreAddress& store, const std::string& key);

}  // namespace trainctl::dist
