#include "base/error.hpp"
#include "fuzz/store_session.hpp"
#include "launch/rendezvous/store.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace trainctl;

/// What is read, written again, is the same to the last byte; the rest is Error(unexpected).
template <class Decode, class Encode>
void expect_same_when_written(std::string_view body, Decode decode, Encode encode) {
  try {
    const std::string frame = encode(decode(body));
    if (std::string_view(frame).substr(launch::kFrameHeadBytes) != body) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unexpected || error.message().empty()) std::abort();
  }
}

}  // namespace

// libFuzzer: any bytes are requests of a rank to the store, which are answered or cut off with a
// sentence; as one body they are a request or a reply that comes back the same when written again,
// or Error(unexpected).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  expect_same_when_written(bytes, launch::decode_request, launch::encode_request);
  expect_same_when_written(bytes, launch::decode_reply, launch::encode_reply);
  fuzz::expect_sound_store(bytes);
  return 0;
}
