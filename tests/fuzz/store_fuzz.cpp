// libFuzzer: any bytes are requests of a rank to the store, which answers them or disconnects the
// rank with a reason. As one body, the bytes are a request or a reply that survives a round trip,
// or throw Error(unexpected).

#include "base/error.hpp"
#include "fuzz/store_session.hpp"
#include "launch/rendezvous/store.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace trainctl;

/// Aborts unless `body` decodes to a value that encodes to the same bytes, or throws
/// Error(unexpected).
template <class Decode, class Encode>
void expect_same_when_written(std::string_view body, Decode decode, Encode encode) {
  try {
    const std::string frame = encode(decode(body));
    if (std::string_view(frame).substr(launch::kFrameLengthBytes) != body) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unexpected || error.message().empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  expect_same_when_written(bytes, launch::decode_request, launch::encode_request);
  expect_same_when_written(bytes, launch::decode_reply, launch::encode_reply);
  fuzz::expect_sound_store(bytes);
  return 0;
}
