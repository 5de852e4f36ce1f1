#!/usr/bin/env node
// Starts the program of the package for this platform, and ends as it ends. Written for old versions of node, too, so
// that they can say that they are too old.
'use strict';

var OLDEST_NODE = 16;
var PLATFORMS = { 'linux x64': '@strata-host/linux-x64', 'linux arm64': '@strata-host/linux-arm64' };

function fail(message) {
  console.error('error: ' + message);
  process.exit(1);
}

if (parseInt(process.versions.node, 10) < OLDEST_NODE) {
  fail('node ' + process.versions.node + ' is too old; install node ' + OLDEST_NODE + ' or later, e.g. from https://nodejs.org');
}

var version = require('../package.json').version;
var name = PLATFORMS[process.platform + ' ' + process.arch];
if (!name) {
  fail('there is no strata-host for ' + process.platform + ' on ' + process.arch + '; there is one for Linux on x64 and arm64');
}

var program;
try {
  program = require.resolve(name + '/bin/strata-host');
} catch (_) {
  fail(
    'the package `' + name + '` is not installed, which contains the program for this platform; add it: `npm install ' +
      name + '@' + version + '` (npm leaves it out with `--omit=optional` or `--no-optional`)'
  );
}
var found = require(name + '/package.json').version;
if (found !== version) {
  fail(
    'the package `' + name + '` is version ' + found + ', and `strata-host` is version ' + version +
      '; install both in one version: `npm install strata-host@' + version + ' ' + name + '@' + version + '`'
  );
}

// Before the program starts: a signal that arrives until then would end this process alone.
var child;
var signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];
signals.forEach(function (signal) {
  process.on(signal, function () {
    // A terminal sends SIGINT and SIGQUIT to both processes.
    if (!((signal === 'SIGINT' || signal === 'SIGQUIT') && process.stdin.isTTY)) child.kill(signal);
  });
});
child = require('child_process').spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.on('error', function (error) {
  var hint = error.code === 'EACCES' ? '; its file system may forbid programs (`noexec`), or its permissions are wrong: install it again' : '';
  fail('`' + program + '` cannot be started: ' + error.message + hint);
});
child.on('exit', function (code, signal) {
  if (signal) {
    signals.forEach(function (name) { process.removeAllListeners(name); });
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
