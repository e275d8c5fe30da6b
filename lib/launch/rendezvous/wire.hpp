#pragma once

#include "base/error.hpp"
#include "base/numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Encoding of the protocols between supervisors and ranks: numbers are little-endian, a text is a
// u32 length and its bytes. Lengths are checked before memory is allocated.

namespace trainctl::launch::wire {

template <class Unsigned>
void put(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

inline void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the body prefixed with its length (u32).
inline std::string framed(const std::string& body) {
  std::string frame;
  put(frame, static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

/// Reads values from the front of a body. Throws Error(unexpected) if the body is too short.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class Unsigned>
  Unsigned number() {
    const std::string_view raw = take(sizeof(Unsigned));
    Unsigned value = 0;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value = static_cast<Unsigned>(
          value | static_cast<Unsigned>(static_cast<unsigned char>(raw[i])) << (8 * i));
    }
    return value;
  }

  std::string text(std::size_t limit) {
    const auto length = number<std::uint32_t>();
    ENSURE(unexpected, length <= limit, "a text must have at most {1} bytes, got {0}", length,
           limit);
    return std::string(take(length));
  }

  std::string_view take(std::size_t count) {
    ENSURE(unexpected, count <= bytes_.size(), "a message is {} byte{} too short",
           count - bytes_.size(), plural(count - bytes_.size()));
    const std::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }

  void finish() const {
    ENSURE(unexpected, bytes_.empty(), "a message is {} byte{} too long", bytes_.size(),
           plural(bytes_.size()));
  }

 private:
  std::string_view bytes_;
};

}  // namespace trainctl::launch::wire
