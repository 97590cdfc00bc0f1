// Self-signed certificates, made when a test needs them.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "net/server.h"

namespace flyball::testing {

// Writes FOLDER/NAME.pem and FOLDER/NAME.key. `names` as in "DNS:localhost,IP:127.0.0.1"; times are seconds from now.
inline TlsFiles make_certificate(const std::string& folder, const std::string& name, const std::string& names,
                                 long begins = -3600, long ends = 3600) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509* made = certificate.get();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), begins);
  X509_gmtime_adj(X509_getm_notAfter(made), ends);
  X509_set_pubkey(made, key.get());
  X509_NAME* subject = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(made, subject);
  X509_EXTENSION* alternatives = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  X509_add_ext(made, alternatives, -1);
  X509_EXTENSION_free(alternatives);
  EXPECT_GT(X509_sign(made, key.get(), EVP_sha256()), 0);

  TlsFiles files{folder + "/" + name + ".pem", folder + "/" + name + ".key"};
  FILE* file = std::fopen(files.certificate.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, made), 1);
  std::fclose(file);
  file = std::fopen(files.key.c_str(), "w");
  EXPECT_EQ(::fchmod(fileno(file), 0600), 0);
  EXPECT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(file);
  return files;
}

// A server whose certificate expires while it runs: what `start` makes of the files, once they are no good any more. No
// server starts with an expired certificate, so that one gets a longer life where this machine was too slow for it.
template <class Start>
auto start_and_let_expire(const std::string& folder, const std::string& names, Start start) {
  for (long life = 1;; life *= 2) {
    const TlsFiles files = make_certificate(folder, "expiring", names, -3600, life);
    const std::time_t end = std::time(nullptr) + life;
    try {
      auto started = start(files);
      while (std::time(nullptr) <= end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return started;
    } catch (const InputError&) {
      if (life > 60) throw;
    }
  }
}

}  // namespace flyball::testing
