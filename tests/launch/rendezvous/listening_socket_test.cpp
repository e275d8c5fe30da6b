#include "base/error.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "launch/rendezvous_peers.hpp"
#include "support/catch.hpp"

#include <unistd.h>

#include <array>
#include <future>
#include <optional>
#include <utility>

namespace trainctl::launch {
namespace {

constexpr Claim kNode{Role::node, 1};

Error listen_error(const std::string& host, bool any_address = false) {
  Listener::Options options = two_node_options(host);
  options.any_address = any_address;
  return thrown_by([&] { Listener coordinator(options); });
}

/// Returns an endpoint with a port that nothing listens on.
Endpoint free_endpoint() { return Listener(two_node_options()).endpoint(); }

/// Only listens on a port, or only binds it.
class PlainListener {
 public:
  explicit PlainListener(bool listens = true) {
    Address address = resolve({"127.0.0.1", 0}).addresses.at(0);
    socket_ = tcp_socket(address);
    REQUIRE(::bind(socket_.get(), address.get(), address.size) == 0);
    if (listens) REQUIRE(::listen(socket_.get(), 100) == 0);
  }
  [[nodiscard]] Endpoint endpoint() const { return endpoint_of(local_address(socket_)); }
  [[nodiscard]] Fd accept() const {
    return Fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  Fd socket_;
};

JoinOptions options_at(const Endpoint& endpoint, double timeout_s) {
  return {.endpoint = endpoint,
          .token = token_of(7),
          .run_id = "run",
          .claim = kNode,
          .timeout_s = timeout_s};
}

}  // namespace

TEST_CASE("Listener: the wildcard address is rejected even if any address is allowed") {
  for (const char* host : {"0.0.0.0", "::", "::ffff:0.0.0.0"}) {
    for (const bool any : {false, true}) {
      const Error error = listen_error(host, any);
      CHECK(error.kind() == ErrorKind::config);
      CHECK_THAT(error.what(), Contains("all addresses"));
    }
  }
}

TEST_CASE("Listener: a public address is rejected unless it is allowed") {
  const Error error = listen_error("8.8.8.8");
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("public") && Contains("--allow-public-address"));
  const Error elsewhere = listen_error("8.8.8.8", true);
  CHECK(elsewhere.kind() == ErrorKind::config);
  CHECK_THAT(elsewhere.what(), Contains("not an address of this machine"));
  CHECK_THAT(listen_error("224.0.0.1", true).what(), Contains("not the address of a machine"));
}

TEST_CASE("Listener: with other hosts, a name does not resolve to a loopback address") {
  Listener::Options options = two_node_options("0x7f.1");  // resolved to 127.0.0.1, not numeric
  CHECK(Listener(options).endpoint().host == "127.0.0.1");
  options.other_hosts = true;
  options.any_address = true;
  options.port_wait_s = 3600;
  try {
    const Listener coordinator(options);  // on the machine's only network
    CHECK_THAT(coordinator.endpoint().host, !StartsWith("127."));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains("only to a loopback address") && Contains("--rdzv-endpoint"));
  }
  options.endpoint.host = "127.0.0.1";  // as typed by the user
  CHECK(Listener(options).endpoint().host == "127.0.0.1");
}

TEST_CASE("Listener: the error for a port in use names the port and its owner") {
  const Listener first(two_node_options());
  Listener::Options options = two_node_options();
  options.endpoint.port = first.endpoint().port;
  const Error error = thrown_by([&] { Listener coordinator(options); });
  CHECK(error.kind() == ErrorKind::resource);
  CHECK_THAT(error.what(), Contains(fmt::format("port {}", first.endpoint().port)) &&
                               Contains(fmt::format("process {} (", ::getpid())));
}

TEST_CASE("Listener: a port that becomes free during the wait is used") {
  std::optional<Listener> first(two_node_options());
  Listener::Options options = two_node_options();
  options.endpoint.port = first->endpoint().port;
  options.port_wait_s = 30;
  options.give_up = [&] {
    first.reset();
    return false;
  };
  const Listener second(options);
  CHECK(second.endpoint().port == options.endpoint.port);
}

TEST_CASE("Listener: the wait for a port can be interrupted") {
  const Listener first(two_node_options());
  Listener::Options options = two_node_options();
  options.endpoint.port = first.endpoint().port;
  options.port_wait_s = 30;
  options.give_up = [] { return true; };
  CHECK(thrown_by([&] { Listener coordinator(options); }).kind() == ErrorKind::interrupted);
}

TEST_CASE("Listener: a port is free immediately after its connections have closed") {
  Endpoint endpoint;
  {
    Listener coordinator(two_node_options());
    endpoint = coordinator.endpoint();
    auto joining = join_async(join_options(coordinator, kNode));
    Listener::Arrival arrival = next_arrival(coordinator);
    const JoinedConnection joined = joining.get();
    arrival.socket.reset();  // the side that closes first stays in TIME_WAIT
    CHECK(joined.socket.valid());
  }
  Listener::Options options = two_node_options();
  options.endpoint = endpoint;
  CHECK(Listener(options).endpoint().port == endpoint.port);
}

TEST_CASE("join: the error for an endpoint without a listener has a hint") {
  const PlainListener port(false);
  const Endpoint nobody = port.endpoint();
  const Error error = thrown_by([&] { join(options_at(nobody, 1)); });
  CHECK(error.kind() == ErrorKind::hang);
  CHECK_THAT(error.what(), Contains(to_text(nobody)) && Contains("as node 1") &&
                               Contains("no process listens at this address") &&
                               Contains("firewall"));
}

TEST_CASE("join: a node that starts before the coordinator waits for it") {
  Listener::Options options = two_node_options();
  std::optional<PlainListener> port(false);
  options.endpoint = port->endpoint();
  options.port_wait_s = 30;
  std::promise<void> waiting;
  JoinOptions request = options_at(options.endpoint, 30);
  request.give_up = [&, reported = false]() mutable {
    if (!std::exchange(reported, true)) waiting.set_value();
    return false;
  };
  auto joining = join_async(request);
  waiting.get_future().wait();
  port.reset();
  Listener coordinator(options);
  CHECK(next_arrival(coordinator).claim == kNode);
  CHECK(joining.get().socket.valid());
}

TEST_CASE("join: can be interrupted") {
  JoinOptions request = options_at(free_endpoint(), 30);
  request.give_up = [] { return true; };
  const Error error = thrown_by([&] { join(request); });
  CHECK(error.kind() == ErrorKind::interrupted);
}

TEST_CASE("join: the error distinguishes no answer, a closed connection and another protocol") {
  const PlainListener plain;
  const Error silent = thrown_within(
      0.3, ErrorKind::hang, [&](double limit_s) { join(options_at(plain.endpoint(), limit_s)); });
  CHECK(silent.kind() == ErrorKind::hang);
  CHECK_THAT(silent.what(), Contains("does not answer"));

  for (const std::string_view reply : {"", "SSH-2.0-OpenSSH_9.2\r\n"}) {
    const PlainListener host;
    const ErrorKind expected = reply.empty() ? ErrorKind::rank_failed : ErrorKind::config;
    const Error error = thrown_within(2, expected, [&](double limit_s) {
      auto joining = join_async(options_at(host.endpoint(), limit_s));
      wait_until([&] {
        const Fd peer = host.accept();
        if (peer.valid()) ::send(peer.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
        // Unread input would reset the connection and lose the reply.
        std::array<char, 1000> buffer;
        if (peer.valid()) ::recv(peer.get(), buffer.data(), buffer.size(), 0);
        return is_ready(joining);
      });
      (void)joining.get();
    });
    CHECK(error.kind() == expected);
    CHECK_THAT(error.what(), Contains(reply.empty() ? "closed immediately" : "'SSH-'"));
  }
}

TEST_CASE("join: an unknown host name is a config error") {
  const Error error = thrown_by([&] {
    join(options_at({std::string(70, 'a'), 29400}, 0));
  });  // a label has at most 63
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("cannot resolve the host name"));
  CHECK_THAT(listen_error(std::string(70, 'a')).what(), Contains("cannot resolve the name"));
}

TEST_CASE("rendezvous: a run id that is too long is rejected on both sides") {
  Listener::Options options = two_node_options();
  options.run_id = std::string(257, 'x');
  CHECK(thrown_by([&] { Listener coordinator(options); }).kind() == ErrorKind::config);
  JoinOptions request = options_at({"127.0.0.1", 1}, 0);
  request.run_id = options.run_id;
  CHECK(thrown_by([&] { join(request); }).kind() == ErrorKind::config);
}

}  // namespace trainctl::launch
