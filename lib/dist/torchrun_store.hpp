#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trainctl::dist {

/// The key-value store of torchrun, which listens on the host of its first agent.
struct TcpStoreAddress {
  std::string host;
  std::uint16_t port = 0;
  std::chrono::milliseconds timeout{300'000};  // for a key to be there
};

/// Sets a key of that store, in the place of what it held. Throws Error(rank_failed): nobody
/// listens there, or the connection was lost. The store hands it to whoever asks.
void publish_text(const TcpStoreAddress& store, const std::string& key, const std::string& text);

/// Waits until somebody has set the key. Throws Error(hang) where nobody does in time,
/// Error(rank_failed) as above, and Error(config) for more than 64 KiB.
std::string fetch_text(const TcpStoreAddress& store, const std::string& key);

}  // namespace trainctl::dist
