// Command registry_database serves a MySQL database in memory on loopback, for the server of Kubeflow Model Registry.
//
// It prints the address that it serves at, and ends when its standard input is closed. The registry's other database,
// PostgreSQL, is not tested: release 0.3.0 writes names of tables without quotes there, and cannot list the versions of
// a model.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	database := memory.NewDatabase("registry")
	database.BaseDatabase.EnablePrimaryKeyIndexes()
	provider := memory.NewDBProvider(database)
	at := server.Config{Protocol: "tcp", Address: listener.Addr().String(), Listener: listener}
	served, err := server.NewServer(at, sqle.NewDefault(provider), sql.NewContext, memory.NewSessionBuilder(provider), nil)
	check(err)
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	check(served.Start())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
