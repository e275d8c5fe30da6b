#pragma once

#include "dist/communicator.hpp"
#include "events/heartbeat.hpp"
#include "launch/rendezvous/store.hpp"

#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <string>

namespace trainctl::dist {

/// Where this rank stands and how it finds the others.
struct GroupOptions {
  Place place;
  std::shared_ptr<launch::StoreClient> store;
  std::string prefix = "trainctl";  // one for each group and restart
  std::string address = "127.0.0.1";
  std::chrono::milliseconds timeout{600'000};  // of each collective
  events::Heartbeat* heartbeat = nullptr;      // tells the supervisor which one is under way
};

/// c10d's Gloo over TCP: CPU tensors.
std::unique_ptr<Communicator> make_gloo(const GroupOptions& options);

/// NCCL on `device`. Throws Error(resource) in a build without it (no_nccl.cpp).
std::unique_ptr<Communicator> make_nccl(const GroupOptions& options, c10::Device device);
/// "2.28.9"; empty in a build without it.
std::string nccl_version();

}  // namespace trainctl::dist
