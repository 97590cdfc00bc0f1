// The planning server under load, over loopback: `server_load PROGRAM [RANKS]`.
//
// Starts PROGRAM serve on a database of its own, registers one job of RANKS ranks (default 8,192: pipelines of 8
// stages), lets one pipeline's ranks report a profile, has every rank fetch its schedule over a connection of its own,
// and then wait for the next one. Straggler notices are sent meanwhile. Two times count from sending a notice: until a
// rank's new schedule has arrived at its socket, as the kernel stamps it (SO_TIMESTAMPNS), and until the load generator
// has read all of it. One thread with epoll is all 8,192 clients, on the same machine and the same processors as the
// server: the difference is the generator's queue, which ranks on machines of their own do not stand in.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/record.h"
#include "profile/synth.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";
constexpr int kStages = 8;
constexpr int kMicrobatches = 32;
constexpr int kRounds = 10;
constexpr std::size_t kRegistering = 256;  // connections at a time while ranks register

double wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// One connection with at most one request under way.
struct Connection {
  int socket = -1;
  std::string received;
  std::size_t expected = 0;  // bytes of head and body; 0 while the head is incomplete
  unsigned status = 0;
  double arrived = 0.0;  // the last byte's, by the kernel's wall clock
  double done = 0.0;     // read, by the same clock
  bool answered = false;
};

class Clients {
 public:
  explicit Clients(std::uint16_t port) : port_(port), epoll_(::epoll_create1(0)) {}
  ~Clients() {
    for (const Connection& connection : connections_) ::close(connection.socket);
    ::close(epoll_);
  }

  std::size_t connect() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (socket < 0 || ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
    }
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = connections_.size();
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
    connections_.push_back({socket, {}, 0, 0, 0.0, 0.0, true});
    return connections_.size() - 1;
  }

  void ask(std::size_t index, std::string_view method, std::string_view target, std::string_view body = {}) {
    Connection& connection = connections_[index];
    connection.received.clear();
    connection.expected = 0;
    connection.answered = false;
    const std::string request =
        fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{}",
                    method, target, kToken, body.size(), body);
    if (::send(connection.socket, request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
      throw std::runtime_error("a request could not be sent");
    }
  }

  // Reads until `enough`, calling `answered` for every connection whose answer is complete.
  void run(const std::function<void(std::size_t)>& answered, const std::function<bool()>& enough) {
    std::vector<epoll_event> events(1024);
    while (!enough()) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 30'000);
      if (count == 0) throw std::runtime_error("nothing has come for 30 s");
      for (int i = 0; i < count; ++i) {
        const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
        if (read(connections_[index])) answered(index);
      }
    }
  }

  // One request, waited for.
  std::string call(std::size_t index, std::string_view method, std::string_view target, std::string_view body = {}) {
    ask(index, method, target, body);
    run([](std::size_t) {}, [&] { return connections_[index].answered; });
    const Connection& connection = connections_[index];
    std::string answer = connection.received.substr(connection.received.find("\r\n\r\n") + 4);
    if (connection.status >= 300) throw std::runtime_error(fmt::format("{} {}: {}", method, target, answer));
    return answer;
  }

  [[nodiscard]] const Connection& operator[](std::size_t index) const { return connections_[index]; }

 private:
  bool read(Connection& connection) {
    char block[65536];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
    iovec part{block, sizeof block};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(connection.socket, &message, MSG_DONTWAIT);
    if (count <= 0) throw std::runtime_error("the server has closed a connection");
    connection.received.append(block, static_cast<std::size_t>(count));
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
      timespec stamp{};
      std::memcpy(&stamp, CMSG_DATA(header), sizeof stamp);
      connection.arrived = static_cast<double>(stamp.tv_sec) + static_cast<double>(stamp.tv_nsec) * 1e-9;
    }
    if (connection.expected == 0) {
      const std::size_t end = connection.received.find("\r\n\r\n");
      if (end == std::string::npos) return false;
      connection.status = static_cast<unsigned>(std::atoi(connection.received.c_str() + 9));
      const std::size_t length = connection.received.find("Content-Length: ");
      const std::size_t body =
          length < end ? static_cast<std::size_t>(std::atoll(connection.received.c_str() + length + 16)) : 0;
      connection.expected = end + 4 + body;
    }
    if (connection.received.size() < connection.expected) return false;
    connection.done = wall_clock();
    connection.answered = true;
    return true;
  }

  std::uint16_t port_;
  int epoll_;
  std::deque<Connection> connections_;
};

struct Server {
  Server(const char* program, const std::string& database) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(program, program, "serve", "--listen", "127.0.0.1:0", "--database", database.c_str(),
              "--connections-per-address", "65536", nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string text;
    char c = 0;
    while (::read(ends[0], &c, 1) == 1 && c != '\n') text += c;
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error("the server did not start");
    port = static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1));
  }
  ~Server() {
    ::kill(child, SIGTERM);
    ::waitpid(child, nullptr, 0);
  }
  pid_t child = -1;
  std::uint16_t port = 0;
};

// How long `count` requests take over a few connections.
double burst(Clients& clients, const std::vector<std::size_t>& over, std::size_t count,
             const std::function<void(std::size_t connection, std::size_t number)>& ask) {
  const auto begin = Clock::now();
  std::size_t next = 0;
  std::size_t done = 0;
  for (const std::size_t connection : over) {
    if (next < count) ask(connection, next++);
  }
  clients.run(
      [&](std::size_t connection) {
        if (clients[connection].status >= 300) throw std::runtime_error(clients[connection].received);
        ++done;
        if (next < count) ask(connection, next++);
      },
      [&] { return done == count; });
  return seconds_since(begin);
}

// User and system time of a process so far, in seconds.
double processor_seconds(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 0; i < 11; ++i) rest >> field;  // state to cmajflt
  double user = 0.0;
  double system = 0.0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double own_processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

double at_share(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

// From sending a notice, in seconds, sorted.
struct NoticeTimes {
  std::vector<double> arrived;
  std::vector<double> read;

  void sort() {
    std::sort(arrived.begin(), arrived.end());
    std::sort(read.begin(), read.end());
  }
  void print(const std::string& what) const {
    const auto figures = [](const std::vector<double>& times) {
      return fmt::format("median {:.1f}, p99 {:.1f}, last {:.1f}", at_share(times, 0.5) * 1e3,
                         at_share(times, 0.99) * 1e3, times.back() * 1e3);
    };
    fmt::print("{}: at the socket {} ms; read {} ms\n", what, figures(arrived), figures(read));
  }
};

void run(const char* program, int ranks) {
  const rlimit most{1u << 20u, 1u << 20u};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, most.rlim_cur);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::string folder = (std::filesystem::temp_directory_path() / "flyball_load_XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  {
    const Server server(program, folder + "/server.db");
    Clients clients(server.port);
    const std::size_t control = clients.connect();
    JobRequest job;
    job.id = "load";
    job.token = kToken;
    job.stages = kStages;
    job.microbatches = kMicrobatches;
    job.data_parallel = ranks / kStages;
    job.patience = Seconds(2);  // for all of one pipeline's ranks to be profiled: then there is one plan, version 1
    clients.call(control, "POST", "/v1/jobs", to_json(job).dump());

    std::vector<std::size_t> registering;
    for (std::size_t i = 0; i < kRegistering; ++i) registering.push_back(clients.connect());
    const auto count = static_cast<std::size_t>(ranks);
    const double registered = burst(clients, registering, count, [&](std::size_t connection, std::size_t number) {
      const int rank = static_cast<int>(number);
      const RankRequest request{rank, rank / kStages, rank % kStages, 0, {}};
      clients.ask(connection, "POST", "/v1/jobs/load/ranks", to_json(request).dump());
    });
    fmt::print("register {} ranks, durably: {:.2f} s, {:.0f}/s\n", ranks, registered, ranks / registered);

    SynthRequest synth;
    synth.stages = kStages;
    const Profile profile = synthesize_profile(synth).profile;
    for (int rank = 0; rank < kStages; ++rank) {
      MeasurementReport report{rank, 0, {}};
      for (const char* instruction : {"forward", "backward"}) {
        for (const ClockOption& option : profile.find(rank, instruction)->options) {
          report.measurements.push_back({instruction, option.frequency, option.time, option.energy, 5});
        }
      }
      clients.call(control, "POST", "/v1/jobs/load/measurements", to_json(report).dump());
      clients.call(control, "POST", fmt::format("/v1/jobs/load/ranks/{}/profiled", rank), "{}");
    }
    const auto planning = Clock::now();
    clients.call(control, "GET", "/v1/jobs/load/ranks/0/schedule?wait_s=60");
    fmt::print("plan {} stages, {} microbatches: {:.2f} s, 2 s of patience included\n", kStages, kMicrobatches,
               seconds_since(planning));

    std::vector<std::size_t> own;
    for (int rank = 0; rank < ranks; ++rank) own.push_back(clients.connect());
    const auto target = [](std::size_t rank, long version) {
      return fmt::format("/v1/jobs/load/ranks/{}/schedule?after_version={}&wait_s=60", rank, version);
    };
    const auto fetching = Clock::now();
    std::size_t fetched = 0;
    for (std::size_t rank = 0; rank < count; ++rank) clients.ask(own[rank], "GET", target(rank, 0));
    clients.run([&](std::size_t) { ++fetched; }, [&] { return fetched == count; });
    const double fetch = seconds_since(fetching);
    fmt::print("fetch {} schedules of {} bytes: {:.2f} s, {:.0f}/s\n", ranks, clients[own[0]].received.size(), fetch,
               ranks / fetch);

    NoticeTimes all;
    double processor = 0.0;
    double own_processor = 0.0;
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t rank = 0; rank < count; ++rank) clients.ask(own[rank], "GET", target(rank, 1 + round));
      const std::string waiting = fmt::format("flyball_server_waiting_polls {}\n", ranks);
      while (clients.call(control, "GET", "/metrics").find(waiting) == std::string::npos) ::usleep(10'000);
      const StragglerNotice notice{"rack", round % 2 == 0 ? 1.02 : 1.0, Seconds(0), std::nullopt};
      const std::string body = to_json(notice).dump();
      std::size_t reached = 0;
      const double processor_before = processor_seconds(server.child);
      const double own_before = own_processor_seconds();
      const double sent = wall_clock();
      clients.ask(control, "POST", "/v1/jobs/load/stragglers", body);
      clients.run([&](std::size_t connection) { reached += connection == control ? 0 : 1; },
                  [&] { return reached == count && clients[control].answered; });
      processor += processor_seconds(server.child) - processor_before;
      own_processor += own_processor_seconds() - own_before;
      NoticeTimes times;
      for (const std::size_t connection : own) {
        times.arrived.push_back(clients[connection].arrived - sent);
        times.read.push_back(clients[connection].done - sent);
      }
      times.sort();
      times.print(fmt::format("notice {}, first after {:.1f} ms", round + 1, times.arrived.front() * 1e3));
      all.arrived.insert(all.arrived.end(), times.arrived.begin(), times.arrived.end());
      all.read.insert(all.read.end(), times.read.begin(), times.read.end());
    }
    all.sort();
    all.print(fmt::format("notices to {} waiting ranks, all rounds", ranks));
    const double answers = kRounds * static_cast<double>(ranks);
    fmt::print("processor time per rank and notice: server {:.1f} us, load generator {:.1f} us\n",
               processor * 1e6 / answers, own_processor * 1e6 / answers);
    const std::string metrics = clients.call(control, "GET", "/metrics");
    for (const char* name : {"flyball_server_schedule_lookup_seconds", "flyball_server_store_"}) {
      for (std::size_t at = metrics.find(name); at != std::string::npos; at = metrics.find(name, at + 1)) {
        if (at > 0 && metrics[at - 1] == '\n') fmt::print("{}\n", metrics.substr(at, metrics.find('\n', at) - at));
      }
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace flyball

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: server_load PROGRAM [RANKS], with PROGRAM = build/flyball\n");
    return 2;
  }
  try {
    flyball::run(argv[1], argc > 2 ? std::atoi(argv[2]) / 8 * 8 : 8192);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "server_load: {}\n", error.what());
    return 1;
  }
}
