#pragma once

#include "engine/entry.h"

#include <string_view>

namespace trainctl::engine {

/// The mode of a request that starts no worker: its `store_fd` is a stream that holds one JSON
/// object up to its end, {"do": "publish" or "fetch", "host", "port", "timeout_s", "key", "text"},
/// and takes the answer: the text that was fetched, or the message of an error.
inline constexpr std::string_view kExchangeMode = "exchange";

/// Publishes or fetches a text in torchrun's store. Returns 0, or the kind of the error.
int exchange(const TrainctlEngineRequest& request);

}  // namespace trainctl::engine
