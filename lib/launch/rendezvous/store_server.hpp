#pragma once

#include "base/files.hpp"
#include "launch/rendezvous/store_protocol.hpp"

#include <poll.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

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
