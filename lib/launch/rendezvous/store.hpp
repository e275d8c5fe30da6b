#pragma once

#include "base/files.hpp"

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::launch {

/// Client of the supervisor's key-value store over the inherited Unix socket; c10d uses it to form
/// a process group. One request at a time; thread-safe. Throws Error(rank_failed) if the supervisor
/// has ended, Error(hang) on time-out.
class StoreClient {
 public:
  /// Takes ownership of the descriptor.
  explicit StoreClient(int fd);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Sets a value. Keys have up to 64 KiB, values up to 1 MiB, the store up to 64 MiB; throws
  /// Error(resource) if it is full.
  void set(const std::string& key, const std::string& value);
  std::optional<std::string> try_get(const std::string& key);  // does not block
  /// Adds to a decimal number and returns the sum; a missing key counts as 0.
  std::int64_t add(const std::string& key, std::int64_t delta);
  bool erase(const std::string& key);
  std::int64_t size();
  /// Blocks until all keys exist, at most 1,024 keys of 1 MiB in total. Throws Error(hang) naming
  /// the first missing key and the time.
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The frames between StoreClient and StoreServer consist of a length (4 bytes, little-endian, of
// the body) and a body. A request has an id u32, an operation u8 and its fields; a reply has an id
// u32, a status u8 and a value. A text has a length u32 and its bytes. Lengths are checked before
// memory is allocated.

inline constexpr std::size_t kMaxKeyBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxStoreBytes = std::size_t{64} << 20;  // keys and values in total
inline constexpr std::size_t kMaxWaitKeys = 1024;
inline constexpr std::size_t kMaxFrameBytes = kMaxKeyBytes + kMaxValueBytes + 64;
inline constexpr std::size_t kFrameLengthBytes = 4;

enum class Operation : std::uint8_t { set = 1, try_get, add, erase, size, wait };
enum class Status : std::uint8_t { ok = 1, absent, full, not_a_number };

struct Request {
  std::uint32_t id = 0;
  Operation operation = Operation::size;
  std::vector<std::string> keys;  // one key, except for wait (several) and size (none)
  std::string value;              // for set
  std::int64_t delta = 0;         // for add
};

struct Reply {
  std::uint32_t id = 0;
  Status status = Status::ok;
  std::string value;  // for try_get; decimal for add and size
};

/// Returns a whole frame with its length. The caller respects the limits.
std::string encode_request(const Request& request);
std::string encode_reply(const Reply& reply);

/// Parses a body. Throws Error(unexpected) with the reason if it exceeds a limit or is malformed.
Request decode_request(std::string_view body);
Reply decode_reply(std::string_view body);

/// Returns the body length of the frame at the front of `bytes`; empty if the length is incomplete.
/// Throws Error(unexpected) above the limit.
std::optional<std::size_t> body_bytes(std::string_view bytes);

/// The rendezvous store: keys and values for the ranks of one job, owned by the supervisor and
/// driven by its poll loop. Never blocks; memory and work per call are bounded for any input.
class StoreServer {
 public:
  /// Adds a rank, and makes its socket non-blocking. At most 1,024 clients.
  void add_client(int rank, Fd socket);
  /// Adds the descriptors and events to poll for.
  void append_to(std::vector<pollfd>& polls) const;
  /// Serves clients that are ready, and reads at most 64 KiB from each.
  void serve();

  /// A client that was disconnected, and the reason.
  struct Disconnect {
    int rank;
    std::string reason;
  };
  /// Returns the clients that were cut off since the last call because they broke the protocol.
  std::vector<Disconnect> take_disconnects();
  [[nodiscard]] std::size_t stored_bytes() const { return stored_bytes_; }
  [[nodiscard]] std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    int rank;
    Fd socket;
    std::string input;
    std::string output;              // nothing more is read until it is sent
    std::optional<Request> waiting;  // a new request replaces it
  };

  bool serve(Client& client);
  bool receive(Client& client);
  void handle_frames(Client& client);
  static bool send(Client& client);
  std::optional<Reply> answer(const Request& request);
  Reply store(const std::string& key, std::string value, Reply reply);
  Reply add(const Request& request);
  void answer_waiting();

  std::map<std::string, std::string> values_;
  std::size_t stored_bytes_ = 0;
  std::vector<Client> clients_;
  std::vector<Disconnect> disconnects_;
};

}  // namespace trainctl::launch
