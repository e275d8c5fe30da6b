#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Frames between StoreClient and StoreServer. A frame is a length (4 bytes, little-endian, of what
// follows) and a body: request: id u32, operation u8, then its fields; reply: id u32, status u8,
// then a value. A text is a length u32 and its bytes. Lengths are checked before anything is
// allocated for them.

namespace trainctl::launch {

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

}  // namespace trainctl::launch
