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

/// Client of the supervisor's key-value store, over the inherited Unix socket: what c10d needs to
/// form a group. One request at a time; thread-safe. Throws Error(rank_failed) when the supervisor
/// is gone, Error(hang) on time-out.
class StoreClient {
 public:
  /// Owns the descriptor from here on.
  explicit StoreClient(int fd);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Key up to 64 KiB, value up to 1 MiB, 64 MiB in all: Error(resource) where the store is full.
  void set(const std::string& key, const std::string& value);
  std::optional<std::string> look(const std::string& key);  // does not wait
  /// The sum, kept as decimal text; a key that is not there counts as 0.
  std::int64_t add(const std::string& key, std::int64_t delta);
  bool erase(const std::string& key);
  std::int64_t size();
  /// Waits until every key is there: at most 1,024 keys of 1 MiB in all. Error(hang) names the
  /// first and the time.
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Frames between StoreClient and StoreServer. A frame is a length (4 bytes, little-endian, of what
// follows) and a body: request: id u32, operation u8, then its fields; reply: id u32, status u8,
// then a value. A text is a length u32 and its bytes. Lengths are checked before anything is
// allocated for them.

inline constexpr std::size_t kMaxKeyBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxStoreBytes = std::size_t{64} << 20;  // keys and values of all
inline constexpr std::size_t kMaxWaitKeys = 1024;
inline constexpr std::size_t kMaxFrameBytes = kMaxKeyBytes + kMaxValueBytes + 64;
inline constexpr std::size_t kFrameHeadBytes = 4;

enum class Operation : std::uint8_t { set = 1, look, add, erase, size, wait };
enum class Status : std::uint8_t { ok = 1, absent, full, not_a_number };

struct Request {
  std::uint32_t id = 0;
  Operation operation = Operation::size;
  std::vector<std::string> keys;  // one, but for wait; none for size
  std::string value;              // of set
  std::int64_t delta = 0;         // of add
};

struct Reply {
  std::uint32_t id = 0;
  Status status = Status::ok;
  std::string value;  // of look; decimal for add and size
};

/// Whole frames, head included. The caller keeps to the limits.
std::string encode_request(const Request& request);
std::string encode_reply(const Reply& reply);

/// What a body says. Throws Error(unexpected) with the reason where it breaks a limit or the form.
Request decode_request(std::string_view body);
Reply decode_reply(std::string_view body);

/// Length of the body of the frame at the front of `bytes`; nothing while the head is incomplete.
/// Throws Error(unexpected) above the limit.
std::optional<std::size_t> body_bytes(std::string_view bytes);

/// The rendezvous store: keys and values for the ranks of one job, driven by the supervisor's poll
/// loop. Never waits; memory and work per call are bounded whatever a client sends.
class StoreServer {
 public:
  /// Serves one more rank over a socket (made non-blocking here). At most 1,024.
  void add_client(int rank, Fd socket);
  /// What to poll for.
  void append_to(std::vector<pollfd>& polls) const;
  /// Serves whoever is ready: at most 64 KiB read a client.
  void serve();

  struct Cut {
    int rank;
    std::string reason;
  };
  /// Clients that broke the protocol and were cut off since the last call.
  std::vector<Cut> take_cuts();
  [[nodiscard]] std::size_t stored_bytes() const { return stored_bytes_; }
  [[nodiscard]] std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    int rank;
    Fd socket;
    std::string input;
    std::string output;              // while it is not sent, nothing more is read
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
  std::vector<Cut> cuts_;
};

}  // namespace trainctl::launch
